#include "study/checkpoint_gradients.h"

#include <algorithm>

#include "recipe/layer_names.h"
#include "train/checkpoint.h"

namespace ng::study {
namespace {

GradientDraws undrawn(GradientProbe& exact, const io::CheckpointEntry& checkpoint) {
  read_checkpoint_weights(checkpoint, exact.run());
  std::vector<int64_t> sizes;
  for (const GradientProbe::Matrix& matrix : exact.matrices()) sizes.push_back(matrix.size);
  return {exact.gradient(0, 0), std::move(sizes)};
}

}  // namespace

ProbeTask task_of_run(const RunConfig& config, uint64_t seed) {
  const RunText text = text_of_run(config);
  return {.model = text.model,
          .sequences = config.train.batch,
          .length = text.length,
          .seed = seed,
          .masked = text.masked,
          .documents = config.train.document_mask,
          .fill = [fill = text.fill, step = config.train.steps](int64_t, const BatchSpans& to) {
            fill(step, 0, to);
          }};
}

CheckpointGradients::CheckpointGradients(const io::CheckpointEntry& checkpoint,
                                         const ProbeTask& task, Threads threads)
    : task_(task),
      threads_(threads),
      exact_("fp32", task, threads),
      none_(undrawn(exact_, checkpoint)) {
  const std::vector<GradientProbe::Matrix> matrices = exact_.matrices();
  for (size_t m = 0; m < matrices.size(); ++m) {
    // "blocks.0.attn.q.weight" is of kind "attn.q"
    const std::string name(layers::place_of(layers::layer_of(matrices[m].name)).part);
    const auto at = std::find(kinds_.begin(), kinds_.end(), name);
    const auto k = static_cast<size_t>(at - kinds_.begin());
    if (at == kinds_.end()) {
      kinds_.push_back(name);
      matrices_.emplace_back();
    }
    matrices_[k].push_back(m);
  }
}

GradientErrors CheckpointGradients::errors_of(GradientProbe& probe, int64_t draws) const {
  probe.copy_weights(exact_);
  if (probe.scales_by_history()) (void)probe.gradient(0, draws);
  GradientDraws drawn = none_;
  GradientErrors errors;
  for (int64_t draw = 0; draw < draws; ++draw) {
    drawn.add(probe.gradient(0, draw));
    errors.loss.add(probe.loss() - exact_.loss());
  }
  errors.all = drawn.errors();
  for (const std::vector<size_t>& matrices : matrices_)
    errors.kinds.push_back(drawn.errors(matrices));
  return errors;
}

}  // namespace ng::study
