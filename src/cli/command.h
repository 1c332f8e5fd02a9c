// A command of the program: what the command line may say after its name, and what to do then.
#pragma once

#include <functional>
#include <span>
#include <string_view>

#include "cli/flags.h"

namespace ng::cli {

struct Command {
  std::string_view name;
  std::string_view summary;  ///< one line for the list of commands
  /// Adds flags and positionals. Returns what to do when the command line has named this command;
  /// its result is the exit code. Errors are thrown.
  std::function<int()> (*declare)(Flags flags);
  bool is_across_ranks = false;  ///< started as several ranks, these share one work
};

/// Throws Error where the program was started as several ranks: copies of a command that knows
/// nothing of others would write into the same files.
void refuse_ranks(std::string_view command);

/// All commands, in the order of --help.
[[nodiscard]] std::span<const Command> commands();

}  // namespace ng::cli
