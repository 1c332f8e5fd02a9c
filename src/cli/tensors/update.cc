// narrowgauge update IN OUT --recipe R: what an optimizer makes of a tensor of a file.
#include "tools/update_file.h"

#include <algorithm>

#include "base/json.h"
#include "cli/command.h"
#include "cli/output.h"
#include "cli/progress_line.h"
#include "cli/shared_flags.h"
#include "cli/tensors/draw_flags.h"

namespace ng::cli {
namespace {

struct Args {
  std::string in, out, recipe;
  UpdateFileSettings settings;
  int64_t kv_heads = 0;
  MachineFlags machine;
  bool json = false;
};

Json json_of(const std::optional<double>& figure) { return figure ? Json(*figure) : Json(); }

Json json_of(const UpdateFigures& f) {
  return {{"step", f.step},
          {"update_norm", json_of(f.update_norm)},
          {"target_norm", json_of(f.target_norm)},
          {"alpha_over_lr", json_of(f.alpha_over_lr)},
          {"ratio", json_of(f.ratio)},
          {"projection", json_of(f.projection)},
          {"cosine", json_of(f.cosine)},
          {"changed", f.changed}};
}

std::string text_of(const std::optional<double>& figure) {
  return figure ? fmt::format("{:.4g}", *figure) : "-";
}

void print_text(const UpdateFileReport& report) {
  print("{} ({}, {})\n", report.parameter, report.rows, report.cols);
  for (const std::string& line : report.stored) print("  {}\n", line);
  Table table({"step", "update norm", "target norm", "alpha/lr", "ratio", "projection", "cosine",
               "changed"});
  for (const UpdateFigures& f : report.steps)
    if (std::binary_search(report.shown.begin(), report.shown.end(), f.step))
      table.row({std::to_string(f.step), text_of(f.update_norm), text_of(f.target_norm),
                 text_of(f.alpha_over_lr), text_of(f.ratio), text_of(f.projection),
                 text_of(f.cosine), fmt::format("{:.2f} %", 100 * f.changed)});
  print("{}", table.text());
}

int update(const Args& args) {
  UpdateFileSettings settings = args.settings;
  settings.optimizer.kv_heads = args.kv_heads > 0 ? args.kv_heads : settings.optimizer.heads;
  settings.backend = args.machine.backend;
  settings.threads = args.machine.use();
  const Recipe recipe = Recipe::load(args.recipe);
  UpdateFileReport report;
  {
    ProgressLine line("updates");
    report = update_file(args.in, args.out, recipe, settings,
                         [&](int64_t done, int64_t total) { line.show(done, total); });
  }
  for (const std::string& tensor : report.not_finite)
    note(fmt::format("{}: {} holds values that are not finite", args.out, tensor));
  for (const std::string& state : report.overflowing)
    note(fmt::format("{}: {} is beyond the range of its format, for which training skips a step",
                     args.out, state));
  if (!args.json) {
    print_text(report);
    return 0;
  }
  Json steps = Json::array();
  for (const UpdateFigures& figures : report.steps) steps.push_back(json_of(figures));
  print_json({{"steps", steps}});
  return 0;
}

void declare_optimizer(Flags flags, Args& a) {
  const auto zero_up = number_between("0", "1e30"), decay = number_between("0", "0.9999999");
  OptimizerSettings& o = a.settings.optimizer;
  flags.option("--lr", a.settings.lr, "learning rate of every step").shows_default().check(zero_up);
  flags.option("--beta1", o.beta1, "of the first moment; of sgd the momentum")
      .shows_default()
      .check(decay);
  flags.option("--beta2", o.beta2, "of the second moment").shows_default().check(decay);
  flags.option("--eps", o.eps, "beside its root").shows_default().check(number_between("0", "1"));
  flags.option("--weight-decay", o.weight_decay, "applied as given, to vectors too")
      .shows_default()
      .check(zero_up);
  constexpr int64_t kMost = int64_t{1} << 30;
  flags.option("--heads", o.heads, "of attention: how rows of q and qkv belong together")
      .shows_default()
      .range(1, kMost);
  flags.option("--kv-heads", a.kv_heads, "of keys and values; as many as --heads").range(1, kMost);
}

constexpr const char* kFooter =
    R"(IN holds floats: weight (r, c), a vector as (1, n); grad (steps, r, c), or direction (r, c),
which is u in every step: then there are no moments and no decay. It may hold weight.scale (F32,
what stored elements are multiplied by; else a fresh one is found) and first states state.moment1,
state.moment2, state.momentum, state.residual (w + c), state.compensation. Where the recipe keeps
a master, weight starts it.
OUT gets, after N updates, stepN.weight, stepN.master, stepN.moment1 and the other states that the
recipe keeps, as F32, and of what is stored narrow .codes, .scale and .tensor_scale as cast writes
them. Gradients are used as they are: nothing clips or rounds them, no noise is added. Nothing is
skipped either: what goes beyond the range of its format is named and becomes its largest value.
Of each step: the norms of what the stored weight changed by (D) and of what was asked (lr u),
ratio = |D| / |lr u|, projection = <D, lr u> / |lr u|^2, the cosine between both, the share of
weights that changed, and the alpha of precision_aware; null (-) is what is not defined.)";

std::function<int()> declare(Flags flags) {
  auto args = std::make_shared<Args>();
  Args& a = *args;
  UpdateFileSettings& s = a.settings;
  flags.option("IN", a.in, "safetensors file with weight, and grad or direction").required();
  flags.option("OUT", a.out, "safetensors file to write").required();
  flags.option("--recipe", a.recipe, "recipe, a name or a file").required();
  declare_optimizer(flags, a);
  add_seed(flags, s.seed, "of stochastic rounding");
  add_step(flags, s.first_step, "of training, at which the first update takes place");
  add_tensor_id(flags, s.tensor_id);
  flags.option("--layer", s.layer, "layer or parameter that the weight is: its overrides apply")
      .shows_default()
      .type_name("NAME");
  flags.option("--blocks", s.blocks, "of the model, for overrides; the layer's is the last")
      .range(1, int64_t{1} << 30);
  flags.option("--steps", s.steps, "updates; all of grad, one along direction")
      .range(1, int64_t{1} << 30);
  flags.option("--show", s.show, "updates done when tensors are written, from 0; the last")
      .list()
      .type_name("N,N,N");
  a.machine.declare(flags);
  flags.flag("--json", a.json, "every step, as JSON");
  flags.footer(kFooter);
  return [args] { return update(*args); };
}

}  // namespace

extern const Command kUpdate;
const Command kUpdate{"update", "what an optimizer makes of a tensor, in a recipe's numbers",
                      declare};

}  // namespace ng::cli
