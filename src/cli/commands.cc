// The registry of commands: a declaration and a row per command.
#include "base/error.h"
#include "cli/command.h"
#include "comm/launch.h"

namespace ng::cli {

extern const Command kTrain;
extern const Command kSupervise;
extern const Command kCompare;
extern const Command kEval;
extern const Command kGenerate;
extern const Command kExport;
extern const Command kImport;
extern const Command kRecipes;
extern const Command kPlan;
extern const Command kTokenize;
extern const Command kDetokenize;
extern const Command kTokenizer;
extern const Command kFormats;
extern const Command kCast;
extern const Command kInspect;
extern const Command kMatmul;
extern const Command kUpdate;
extern const Command kNoise;
extern const Command kReduce;
extern const Command kLearned;
extern const Command kTrace;
extern const Command kStudy;
extern const Command kBench;
extern const Command kInfo;

std::span<const Command> commands() {
  static const Command kCommands[] = {
      kTrain,  kSupervise, kCompare,    kEval,      kGenerate, kExport, kImport,  kRecipes,
      kPlan,   kTokenize,  kDetokenize, kTokenizer, kFormats,  kCast,   kInspect, kMatmul,
      kUpdate, kNoise,     kReduce,     kLearned,   kTrace,    kStudy,  kBench,   kInfo};
  return kCommands;
}

void refuse_ranks(std::string_view command) {
  const int ranks = launch().ranks;
  if (ranks == 1) return;
  throw Error({.place = std::string(command),
               .key = "",
               .problem = fmt::format("started as {} ranks, but it works in one process", ranks),
               .remedy = "without mpirun or srun"});
}

}  // namespace ng::cli
