// A tiny model with a trainer: a few thousand parameters, sizes that no block divides.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "math/philox.h"
#include "run/backends.h"
#include "run/transfer.h"
#include "train/trainer.h"

namespace ng {

inline ModelConfig tiny_llama() {
  ModelConfig c;
  c.vocab = 37;
  c.layers = 2;
  c.heads = 2;
  c.kv_heads = 1;
  c.head_dim = 10;
  c.width = 20;
  c.ffn = 34;
  c.context = 12;
  return c;
}

inline ModelConfig tiny_gpt2() {
  ModelConfig c = tiny_llama();
  c.architecture = Architecture::gpt2;
  c.kv_heads = c.heads;
  c.attention_bias = c.mlp_bias = c.norm_bias = true;
  return c;
}

struct TinyRunOptions {
  ModelConfig model = tiny_llama();
  std::string recipe = "name = \"fp32\"";  ///< TOML text
  std::string backend = "cpu";
  int threads = 1;
  uint64_t thread_order = 0;                             ///< of an emulated card
  std::unique_ptr<Backend> (*make_backend)() = nullptr;  ///< in the place of `backend`
  RecomputePolicy recompute = RecomputePolicy::none;
  int64_t micros = 1;  ///< of each rank
  double clip = 1;
  Determinism determinism = Determinism::ranks;
  Comm* comm = nullptr;
  int tensor = 1;  ///< ranks that divide every layer
  int64_t sequences = 3, length = 11;
  bool masked = false;                  ///< fill() puts ones, which a test may change
  std::optional<DpoSettings> dpo = {};  ///< of two pairs; then masked
  int64_t document = 0;                 ///< tokens of each in a sequence; 0: no document mask
};

/// Model, trainer and random tokens; everything follows from the options.
class TinyRun {
 public:
  static constexpr float kRate = 1e-2f;

  explicit TinyRun(const TinyRunOptions& options)
      : recipe_(Recipe::parse(options.recipe, "test.toml")),
        run_(backend_of(options), 7, 0, options.comm, options.tensor),
        model_(run_, options.model, recipe_, options.recompute, weight_gather(options.determinism)),
        reference_(options.dpo ? make_reference(run_, model_, recipe_, *options.dpo) : nullptr),
        trainer_(run_, model_, recipe_, settings(options), reference_.get()),
        document_(options.document) {
    model_.initialize(run_);
    if (!reference_) return;
    if (!reference_->is_stored_as_trained()) reference_->initialize(run_);
    reference_->take_values(run_, model_);
  }

  [[nodiscard]] Run& run() { return run_; }
  [[nodiscard]] Model& model() { return model_; }
  [[nodiscard]] Model* reference() { return reference_.get(); }
  [[nodiscard]] Trainer& trainer() { return trainer_; }

  StepReport step(int64_t number) {
    fill(number);
    return trainer_.step(number, kRate);
  }

  /// The tokens of a step.
  void fill(int64_t number) {
    RandomKey key;
    key.step = static_cast<uint32_t>(number);
    key.purpose = Purpose::data;
    const auto vocab = static_cast<uint32_t>(model_.config().vocab);
    for (int64_t micro = 0; micro < trainer_.settings().micros; ++micro) {
      const BatchSpans to = trainer_.train_tokens(micro);
      auto group = static_cast<uint64_t>(trainer_.first_micro() + micro) * to.inputs.size();
      for (size_t i = 0; i < to.inputs.size(); ++i, ++group) {
        to.inputs[i] = static_cast<int32_t>(draw(key, group)[0] % vocab);
        to.targets[i] = static_cast<int32_t>(draw(key, group)[1] % vocab);
        to.mask[i] = 1.0f;
        if (document_ == 0) continue;
        const int64_t position = static_cast<int64_t>(i) % trainer_.settings().length;
        to.first_keys[i] = static_cast<int32_t>(position - position % document_);
      }
    }
  }

  /// All weights, one after the other.
  [[nodiscard]] std::vector<float> weights() { return weights_of(model_); }
  [[nodiscard]] std::vector<float> weights_of(Model& model) {
    std::vector<float> all;
    for (const Parameter& p : model.parameters()) {
      const std::vector<float> values = download(run_.backend(), p.value());
      all.insert(all.end(), values.begin(), values.end());
    }
    return all;
  }

 private:
  static std::unique_ptr<Backend> backend_of(const TinyRunOptions& options) {
    if (options.make_backend != nullptr) return options.make_backend();
    return make_backend(options.backend, Threads{options.threads}, options.thread_order);
  }
  static StepSettings settings(const TinyRunOptions& options) {
    StepSettings s;
    s.sequences = options.dpo ? 4 : options.sequences;
    s.length = options.length;
    s.micros = options.micros;
    s.clip = options.clip;
    s.determinism = options.determinism;
    s.masked = options.masked || options.dpo;
    s.dpo = options.dpo;
    s.document_mask = options.document > 0;
    return s;
  }

  Recipe recipe_;
  Run run_;
  Model model_;
  std::unique_ptr<Model> reference_;
  Trainer trainer_;
  int64_t document_;
};

}  // namespace ng
