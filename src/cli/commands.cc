// The registry of commands: a declaration and a row per command.
#include "cli/command.h"

namespace ng::cli {

extern const Command kTrain;
extern const Command kSupervise;
extern const Command kCompare;
extern const Command kEval;
extern const Command kGenerate;
extern const Command kRecipes;
extern const Command kPlan;
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
  static const Command kCommands[] = {kTrain,   kSupervise, kCompare, kEval,   kGenerate,
                                      kRecipes, kPlan,      kFormats, kCast,   kInspect,
                                      kMatmul,  kUpdate,    kNoise,   kReduce, kLearned,
                                      kTrace,   kStudy,     kBench,   kInfo};
  return kCommands;
}

}  // namespace ng::cli
