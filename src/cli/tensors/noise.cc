// narrowgauge noise IN OUT --recipe R: what a recipe's noise does to a weight of a file.
#include "tools/noise_file.h"

#include "base/json.h"
#include "base/text.h"
#include "cli/command.h"
#include "cli/tensors/file_flags.h"

namespace ng::cli {
namespace {

struct NoiseArgs {
  FileFlags files;
  NoiseFileSettings settings;
};

std::string text_of(const NoiseFileReport& r) {
  const auto share = [](int64_t part, int64_t all) {
    return all == 0 ? 0.0 : 100 * static_cast<double>(part) / static_cast<double>(all);
  };
  return fmt::format(
      "{} ({}, {}), {}\n"
      "  b_t         {:.4g} to {:.4g}, mean {:.4g}, {} blocks\n"
      "  noise       {:.3f} % of the elements, {:.3f} % of it lost in the cast\n",
      r.parameter, r.rows, r.cols, r.kind, r.least_bits, r.most_bits, r.mean_bits, r.blocks,
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

void noise(const NoiseArgs& args) {
  const FileFlags& files = args.files;
  const NoiseFileReport report =
      noise_file(files.in, files.out, files.read_recipe(), files.here(args.settings));
  note_turned(report.is_turned, report.parameter);
  for (const std::string& name : report.unread)
    note(fmt::format("{}: {} is not read: it means nothing to noise of this kind", files.in,
                     on_one_line(name)));
  if (report.not_finite > 0)
    note(fmt::format("{}: {} values of weight_hat are not finite, for which training skips a step",
                     files.out, report.not_finite));
  print_either(files.json, json_of(report), text_of(report));
}

constexpr const char* kNoiseFooter =
    R"(IN holds floats: weight (r, c), a vector as (1, n); b_i (blocks of rows, blocks of columns),
else 1; grad (r, c), which is dL/d weight_hat; noise (r, c), used instead of the draw. For nipq b_i
is beta (1, 1), else that of b_init, and there may be alpha (1, 1), by softplus where weights are
clipped, else the largest weight, and u_bit (1, 1), the noise of the bit-width, else drawn.
--weight and --grad name them where they are called otherwise, as in what capture writes and in
models.
OUT gets, as F32, noise, weight_hat as GEMMs read it (rounded by weight_noise.cast), scale and b_t
of each block, and with grad grad.weight, grad.b_t (of the loss alone), grad.b_i (with the loss of
bit-widths, where the recipe has one; all blocks of the tensor count) and grad.alpha.
--json prints b_t as [least, mean, most].)";

void declare_noise(Flags flags, NoiseArgs& args) {
  NoiseFileSettings& s = args.settings;
  args.files.declare(flags, "weight");
  add_seed(flags, s.seed, "of the noise");
  add_step_and_tensor(flags, s.step, "of training", s.tensor_id);
  args.files.declare_weight(flags);
  args.files.declare_grad(flags, "");
  add_layer(flags, s.layer, "linear layer that the weight is of", s.blocks);
  args.files.declare_machine(flags, "the figures, as JSON");
  flags.footer(kNoiseFooter);
}

}  // namespace

const Command kNoise{"noise", "what a recipe's weight noise makes of a tensor",
                     with_flags<NoiseArgs, declare_noise, noise>};

}  // namespace ng::cli
