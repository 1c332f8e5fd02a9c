#include "train/small_run.h"

#include <vector>

#include "base/checksum.h"
#include "comm/agreement.h"
#include "run/backends.h"
#include "train/trainer.h"

namespace ng {
namespace {

constexpr int64_t kSteps = 2, kSequences = 4, kLength = 32;

// Large enough for every block, transform and narrow state.
ModelConfig small_of(ModelConfig model) {
  const bool has_groups = model.kv_heads < model.heads;
  model.vocab = 64;
  model.layers = 2;
  model.heads = 4;
  model.kv_heads = has_groups ? 2 : 4;
  model.head_dim = 32;
  model.width = 128;
  model.ffn = 256;
  model.context = kLength;
  if (model.windows.any()) model.windows = {.size = kLength / 4};
  return model;
}

void fill(const BatchSpans& to, int64_t step, int64_t vocab) {
  for (size_t i = 0; i < to.inputs.size(); ++i) {
    const auto at = static_cast<int64_t>(i) + 131 * step;
    to.inputs[i] = static_cast<int32_t>(at * 7 % vocab);
    to.targets[i] = static_cast<int32_t>((at * 5 + 1) % vocab);
  }
}

}  // namespace

std::string bits_of_small_run(std::string_view backend, const ModelConfig& model,
                              const Recipe& recipe) {
  const ModelConfig small = small_of(model);
  Run run(make_backend(backend, Threads{1}), 1);
  Model of(run, small, recipe, RecomputePolicy::none);
  Trainer trainer(run, of, recipe,
                  {.sequences = kSequences, .length = kLength, .micros = 1, .optimizer = {}});
  of.initialize(run);
  int64_t step = 0;
  for (size_t phase = 0; phase < recipe.phase_starts().size(); ++phase) {
    trainer.set_phase(static_cast<int>(phase));
    for (int64_t i = 0; i < kSteps; ++i, ++step) {
      fill(trainer.train_tokens(0), step, small.vocab);
      (void)trainer.step(step, 1e-2f);
    }
  }
  Checksum checksum;
  std::vector<std::byte> bytes;
  for (const Persistent& row : run.persistents()) {
    bytes.resize(row.memory.size());
    run.backend().download(bytes.data(), row.memory.data(), bytes.size());
    checksum.add(bytes);
  }
  return checksum.hex();
}

void require_equal_bits(Comm& comm, std::string_view backend, const ModelConfig& model,
                        const Recipe& recipe) {
  if (comm.ranks() == 1) return;
  require_same(comm, "bits of two steps of a small model",
               bits_of_small_run(backend, model, recipe));
}

}  // namespace ng
