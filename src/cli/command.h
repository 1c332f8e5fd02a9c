// A command of the program: what the command line may say after its name, and what to do then.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <string_view>
#include <type_traits>

#include "cli/flags.h"
#include "cli/output.h"

namespace ng::cli {

struct Command {
  std::string_view name;
  std::string_view summary;  ///< one line for the list of commands
  /// Adds flags and positionals. Returns what to do when the command line has named this command;
  /// its result is the exit code. Errors are thrown.
  std::function<int()> (*declare)(Flags flags);
  bool is_across_ranks = false;  ///< started as several ranks, these share one work
};

/// Command::declare of what adds its flags by `declare(Flags, Args&)` and runs by `run(Args)`,
/// which returns the exit code, or nothing: 0.
template <class Args, auto declare, auto run>
std::function<int()> with_flags(Flags flags) {
  auto args = std::make_shared<Args>();
  declare(flags, *args);
  return [args] {
    if constexpr (std::is_void_v<decltype(run(*args))>) {
      run(*args);
      return 0;
    } else {
      return run(*args);
    }
  };
}

/// The same of a command that only has commands below it, of which the user names one.
[[nodiscard]] std::function<int()> with_commands(Flags flags, std::string_view name,
                                                 std::span<const Command> below);

/// Throws Error where the program was started as several ranks: copies of a command that knows
/// nothing of others would write into the same files.
void refuse_ranks(std::string_view command);

/// All commands, in the order of --help.
[[nodiscard]] std::span<const Command> commands();

extern const Command kTrain, kSupervise, kCompare, kEval, kGenerate, kExport, kImport, kRecipes,
    kPlan, kTokenize, kDetokenize, kTokenizer, kFormats, kCast, kInspect, kMatmul, kLinear, kUpdate,
    kNoise, kReduce, kCapture, kLearned, kTrace, kStudy, kBench, kAdvise, kKeys, kInfo;

}  // namespace ng::cli
