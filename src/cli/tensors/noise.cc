// narrowgauge noise IN OUT --recipe R: what a recipe's noise does to a weight of a file.
#include "tools/noise_file.h"

#include "base/json.h"
#include "base/text.h"
#include "cli/command.h"
#include "cli/output.h"
#include "cli/shared_flags.h"
#include "cli/tensors/draw_flags.h"

namespace ng::cli {
namespace {

struct Args {
  std::string in, out, recipe;
  NoiseFileSettings settings;
  MachineFlags machine;
  bool json = false;
};

void print_text(const NoiseFileReport& r) {
  const auto share = [](int64_t part, int64_t all) {
    return all == 0 ? 0.0 : 100 * static_cast<double>(part) / static_cast<double>(all);
  };
  print("{} ({}, {}), {}\n", r.parameter, r.rows, r.cols, r.kind);
  print("  b_t         {:.4g} to {:.4g}, mean {:.4g}, {} blocks\n", r.least_bits, r.most_bits,
        r.mean_bits, r.blocks);
  print("  noise       {:.3f} % of the elements, {:.3f} % of it lost in the cast\n",
        share(r.nonzero, r.rows * r.cols), share(r.lost, r.nonzero));
}

Json json_of(const NoiseFileReport& r) {
  return {{"parameter", r.parameter},
          {"kind", r.kind},
          {"rows", r.rows},
          {"cols", r.cols},
          {"blocks", r.blocks},
          {"b_t", {r.least_bits, r.mean_bits, r.most_bits}},
          {"nonzero", r.nonzero},
          {"lost", r.lost},
          {"not_finite", r.not_finite}};
}

int noise(const Args& args) {
  NoiseFileSettings settings = args.settings;
  settings.backend = args.machine.backend;
  settings.threads = args.machine.use();
  const NoiseFileReport report = noise_file(args.in, args.out, Recipe::load(args.recipe), settings);
  for (const std::string& name : report.unread)
    note(fmt::format("{}: {} is not read: it means nothing to noise of this kind", args.in,
                     on_one_line(name)));
  if (report.not_finite > 0)
    note(fmt::format("{}: {} values of weight_hat are not finite, for which training skips a step",
                     args.out, report.not_finite));
  if (args.json)
    print_json(json_of(report));
  else
    print_text(report);
  return 0;
}

constexpr const char* kFooter =
    R"(IN holds floats: weight (r, c), a vector as (1, n); b_i (blocks of rows, blocks of columns),
else 1; grad (r, c), which is dL/d weight_hat; noise (r, c), used instead of the draw. For nipq b_i
is beta (1, 1), else that of b_init, and there may be alpha (1, 1), by softplus where weights are
clipped, else the largest weight, and u_bit (1, 1), the noise of the bit-width, else drawn.
OUT gets, as F32, noise, weight_hat as GEMMs read it (rounded by weight_noise.cast), scale and b_t
of each block, and with grad grad.weight, grad.b_t (of the loss alone), grad.b_i (with the loss of
bit-widths, where the recipe has one; all blocks of the tensor count) and grad.alpha.
--json prints b_t as [least, mean, most].)";

std::function<int()> declare(Flags flags) {
  auto args = std::make_shared<Args>();
  Args& a = *args;
  NoiseFileSettings& s = a.settings;
  flags.option("IN", a.in, "safetensors file with weight").required();
  flags.option("OUT", a.out, "safetensors file to write").required();
  flags.option("--recipe", a.recipe, "recipe, a name or a file").required();
  add_seed(flags, s.seed, "of the noise");
  add_step(flags, s.step, "of training");
  add_tensor_id(flags, s.tensor_id);
  flags.option("--layer", s.layer, "linear layer that the weight is of: its overrides apply")
      .shows_default()
      .type_name("NAME");
  flags.option("--blocks", s.blocks, "of the model, for overrides; the layer's is the last")
      .range(1, int64_t{1} << 30);
  a.machine.declare(flags);
  flags.flag("--json", a.json, "the figures, as JSON");
  flags.footer(kFooter);
  return [args] { return noise(*args); };
}

}  // namespace

extern const Command kNoise;
const Command kNoise{"noise", "what a recipe's weight noise makes of a tensor", declare};

}  // namespace ng::cli
