// narrowgauge update IN OUT --recipe R: what an optimizer makes of a tensor of a file.
#include "tools/update_file.h"

#include <algorithm>

#include "base/json.h"
#include "cli/command.h"
#include "cli/progress_line.h"
#include "cli/tensors/file_flags.h"
#include "recipe/layer_names.h"

namespace ng::cli {
namespace {

struct UpdateArgs {
  FileFlags files;
  UpdateFileSettings settings;
  int64_t kv_heads = 0;
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

std::string text_of(const UpdateFileReport& report) {
  constexpr Column kColumns[] = {{"step", "step"},
                                 {"update norm", "update_norm", "{:.4g}", 1, "-"},
                                 {"target norm", "target_norm", "{:.4g}", 1, "-"},
                                 {"alpha/lr", "alpha_over_lr", "{:.4g}", 1, "-"},
                                 {"ratio", "ratio", "{:.4g}", 1, "-"},
                                 {"projection", "projection", "{:.4g}", 1, "-"},
                                 {"cosine", "cosine", "{:.4g}", 1, "-"},
                                 {"changed", "changed", "{:.2f} %", 100}};
  std::string text = fmt::format("{} ({}, {})\n", report.parameter, report.rows, report.cols);
  for (const std::string& line : report.stored) text += fmt::format("  {}\n", line);
  Json shown = Json::array();
  for (const UpdateFigures& f : report.steps)
    if (std::binary_search(report.shown.begin(), report.shown.end(), f.step))
      shown.push_back(json_of(f));
  return text + table_of(shown, kColumns);
}

void update(const UpdateArgs& args) {
  const FileFlags& files = args.files;
  UpdateFileSettings settings = files.here(args.settings);
  settings.optimizer.kv_heads = args.kv_heads > 0 ? args.kv_heads : settings.optimizer.heads;
  const Recipe recipe = files.read_recipe();
  UpdateFileReport report;
  {
    ProgressLine line("updates");
    report = update_file(files.in, files.out, recipe, settings,
                         [&](int64_t done, int64_t total) { line.show(done, total); });
  }
  note_turned(report.is_turned, report.parameter);
  note_unmet_overrides(recipe, std::string(layers::layer_of(report.parameter)), settings.blocks);
  for (const std::string& tensor : report.not_finite)
    note(fmt::format("{}: {} holds values that are not finite", files.out, tensor));
  for (const std::string& state : report.overflowing)
    note(fmt::format("{}: {} is beyond the range of its format, for which training skips a step",
                     files.out, state));
  Json steps = Json::array();
  for (const UpdateFigures& figures : report.steps) steps.push_back(json_of(figures));
  print_either(files.json, {{"steps", steps}}, text_of(report));
}

void declare_optimizer(Flags flags, UpdateArgs& args) {
  const auto zero_up = number_between("0", "1e30"), decay = number_between("0", "0.9999999");
  OptimizerSettings& o = args.settings.optimizer;
  flags.setting("--lr", args.settings.lr, "learning rate of every step").check(zero_up);
  flags.setting("--beta1", o.beta1, "of the first moment; of sgd the momentum").check(decay);
  flags.setting("--beta2", o.beta2, "of the second moment").check(decay);
  flags.setting("--eps", o.eps, "beside its root").check(number_between("0", "1"));
  flags.setting("--weight-decay", o.weight_decay, "applied as given, to vectors too")
      .check(zero_up);
  constexpr int64_t kMost = int64_t{1} << 30;
  flags.setting("--heads", o.heads, "of attention: how rows of q and qkv belong together")
      .range(1, kMost);
  flags.option("--kv-heads", args.kv_heads, "of keys and values; as many as --heads")
      .range(1, kMost);
}

constexpr const char* kUpdateFooter =
    R"(IN holds floats: weight (r, c), a vector as (1, n); grad (steps, r, c), or direction (r, c),
which is u in every step: then there are no moments and no decay. It may hold weight.scale (F32,
what stored elements are multiplied by; else a fresh one is found) and first states state.moment1,
state.moment2, state.momentum, state.residual (w + c), state.compensation. Where the recipe keeps
a master, weight starts it. --weight and --grad name them where they are called otherwise, as in
what capture and trace write, in models and in runs; a gradient is (r, c) then, for each step one.
OUT gets, after N updates, stepN.weight, stepN.master, stepN.moment1 and the other states that the
recipe keeps, as F32, and of what is stored narrow .codes, .scale and .tensor_scale as cast writes
them; of a moment by parts .low.codes, too, by expand .power and .center. Those and moments by map
are in the first update what the file says, whatever storing would round. Gradients are used as they
are: nothing clips or rounds them, no noise is added. Nothing is skipped either: what goes beyond
the range of its format is named and becomes its largest value, in moments by expand and in parts
NaN. Of each step: the norms of what the stored weight changed by (D) and of what was asked (lr u),
ratio = |D| / |lr u|, projection = <D, lr u> / |lr u|^2, the cosine between both, the share of
weights that changed, and the alpha of precision_aware; null (-) is what is not defined.)";

void declare_update(Flags flags, UpdateArgs& args) {
  UpdateFileSettings& s = args.settings;
  args.files.declare(flags, "weight, and grad or direction");
  declare_optimizer(flags, args);
  add_seed(flags, s.seed, "of stochastic rounding");
  add_step_and_tensor(flags, s.first_step, "of training, at which the first update takes place",
                      s.tensor_id);
  args.files.declare_weight(flags);
  args.files.declare_grad(flags, "steps");
  args.files.declare_direction(flags);
  add_layer(flags, s.layer, "layer or parameter that the weight is", s.blocks);
  flags.option("--steps", s.steps, "updates; all of grad, one along direction")
      .range(1, int64_t{1} << 30);
  flags.option("--show N,N,N", s.show, "updates done when tensors are written, from 0; the last")
      .list();
  args.files.declare_machine(flags, "every step, as JSON");
  flags.footer(kUpdateFooter);
}

}  // namespace

const Command kUpdate{"update", "what an optimizer makes of a tensor, in a recipe's numbers",
                      with_flags<UpdateArgs, declare_update, update>};

}  // namespace ng::cli
