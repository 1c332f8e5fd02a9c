// narrowgauge trace MODEL TOKENS OUT: training steps written out, for other programs to compare.
#include "tools/trace.h"

#include "base/output_file.h"
#include "cli/command.h"
#include "cli/models/open_model.h"
#include "io/safetensors.h"

namespace ng::cli {
namespace {

struct TraceArgs {
  ModelFlags model;
  std::string tokens;
  std::string out;
  uint64_t seed = 1;
  TraceSettings settings;
};

bool is_trace(const std::string& path) {
  try {
    const io::Safetensors file(path);
    return file.find("train.loss") != nullptr && file.find("train.grad_norm") != nullptr;
  } catch (const Error&) {
    return false;
  }
}

void trace(const TraceArgs& args) {
  refuse_input(args.out, args.tokens);
  refuse_input(args.out, args.model.recipe);
  refuse_files_of(args.model.name().path, args.out);
  require_target(args.out, "a trace", is_trace);
  const OpenModel open = open_model(args.model, args.seed);
  for (const int64_t step :
       write_trace(*open.run, *open.model, open.recipe, args.tokens, args.out, args.settings))
    note(fmt::format("step {} was skipped: a loss, gradient or operand is not finite", step));
}

constexpr const char* kTraceFooter =
    R"(OUT gets logits and loss of the first step, grad.NAME before clipping, stepN.NAME after each
step N, train.loss and train.grad_norm. Names and layouts are Hugging Face's.)";

void declare_trace(Flags flags, TraceArgs& args) {
  args.model.declare(flags);
  TraceSettings& s = args.settings;
  const auto zero_up = number_between("0", "1e30"), decay = number_between("0", "0.9999999");
  flags.option("TOKENS", args.tokens, "safetensors file with tokens (steps, B, T + 1)").required();
  flags.option("OUT", args.out, "safetensors file to write").required();
  flags.option("--steps", s.steps, "how many steps; 0: all in TOKENS").range(0, int64_t{1} << 30);
  add_seed(flags, args.seed, "of stochastic rounding");
  flags.setting("--lr", s.lr, "learning rate of every step").check(zero_up);
  flags.setting("--beta1", s.optimizer.beta1, "AdamW").check(decay);
  flags.setting("--beta2", s.optimizer.beta2, "AdamW").check(decay);
  flags.setting("--eps", s.optimizer.eps, "AdamW").check(number_between("1e-30", "1"));
  flags.setting("--weight-decay", s.optimizer.weight_decay, "on tensors of two dimensions")
      .check(zero_up);
  flags.setting("--clip", s.clip, "largest norm of all gradients; 0: no clipping").check(zero_up);
  flags.footer(kTraceFooter);
}

}  // namespace

const Command kTrace{"trace", "logits, gradients and updated weights, for comparison",
                     with_flags<TraceArgs, declare_trace, trace>};

}  // namespace ng::cli
