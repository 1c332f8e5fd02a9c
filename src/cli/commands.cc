// The registry of commands.
#include <string>
#include <vector>

#include "cli/command.h"
#include "comm/launch.h"

namespace ng::cli {

std::span<const Command> commands() {
  static const Command kCommands[] = {
      kTrain,   kSupervise, kCompare, kEval,     kGenerate,   kExport,    kImport,
      kRecipes, kKeys,      kPlan,    kTokenize, kDetokenize, kTokenizer, kFormats,
      kCast,    kInspect,   kMatmul,  kLinear,   kUpdate,     kNoise,     kReduce,
      kCapture, kLearned,   kTrace,   kStudy,    kBench,      kAdvise,    kInfo};
  return kCommands;
}

std::function<int()> with_commands(Flags flags, std::string_view name,
                                   std::span<const Command> below) {
  struct Below {
    Flags flags;
    std::function<int()> action;
    bool is_across_ranks;
  };
  std::vector<Below> all;
  for (const Command& command : below) {
    const Flags its = flags.subcommand(std::string(command.name), std::string(command.summary));
    all.push_back({its, command.declare(its), command.is_across_ranks});
  }
  return [all, name] {
    size_t named = 0;
    while (!all[named].flags.is_named()) ++named;
    if (!all[named].is_across_ranks) refuse_ranks(name);
    return all[named].action();
  };
}

void refuse_ranks(std::string_view command) {
  const int ranks = launch().ranks;
  if (ranks == 1) return;
  refuse(std::string(command),
         fmt::format("started as {} ranks, but it works in one process", ranks),
         "without mpirun or srun");
}

}  // namespace ng::cli
