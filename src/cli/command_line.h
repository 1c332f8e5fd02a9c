// The program's command line: the command it names, with its flags.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/error.h"
#include "cli/command.h"

namespace ng::cli {

class WrongCommandLine : public Error {
 public:
  explicit WrongCommandLine(const std::string& what)
      : Error({.place = "", .key = "", .problem = what, .remedy = ""}) {}
};

/// What a command line asks for.
struct Invocation {
  const Command* command = nullptr;
  std::function<int()> action;
  std::string isa = "auto";
  std::vector<std::string> settings = {};  ///< of --set
};

/// Reads the command line. Prints the help or version it asks for: then there is nothing left to
/// do. Throws WrongCommandLine.
[[nodiscard]] std::optional<Invocation> parse_command_line(int argc, char** argv);

}  // namespace ng::cli
