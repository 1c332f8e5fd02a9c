// The registry of commands: a declaration and a row per command.
#include "cli/command.h"

namespace ng::cli {

extern const Command kTrain;
extern const Command kInfo;

std::span<const Command> commands() {
  static const Command kCommands[] = {kTrain, kInfo};
  return kCommands;
}

}  // namespace ng::cli
