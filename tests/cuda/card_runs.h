// Whole training steps on the emulated card, and what they leave behind.
#pragma once

#include <gtest/gtest.h>

#include <type_traits>

#include "backend/cuda/cuda_backend.h"
#include "backend/ref/ref_backend.h"
#include "backend/wrapped_backend.h"
#include "support/tiny_run.h"

namespace ng {

inline constexpr const char* kCard = "cuda-emulated";
inline constexpr const char* kCardWithUnits = "cuda-emulated-units";

template <class Op, class... Of>
constexpr bool is_one_of = (std::is_same_v<Op, Of> || ...);

/// The emulated card, with `ref` where a card promises a bound and no bits.
class CardWithRefLayers final : public WrappedBackend {
 public:
  CardWithRefLayers()
      : WrappedBackend(make_emulated_cuda_backend({.is_managed = true})),
        ref_(make_ref_backend(Threads{1})) {}

  void execute(const Operation& operation) override {
    const bool has_bound = std::visit(
        []<class Op>(const Op&) {
          return is_one_of<Op, Norm, NormBackward, Gelu, GeluBackward, Swiglu, SwigluBackward,
                           Attention, AttentionBackward, CrossEntropy, CrossEntropyLoss,
                           AddColumnSums>;
        },
        operation);
    has_bound ? ref_->execute(operation) : WrappedBackend::execute(operation);
  }

 private:
  std::unique_ptr<Backend> ref_;  // the card's memory is managed: within its reach
};

inline TinyRunOptions options_of(const ModelConfig& model, const std::string& recipe,
                                 const char* backend) {
  return {.model = model,
          .recipe = "name = \"test\"\ninherit = \"" + recipe + "\"",
          .backend = backend,
          .sequences = 1};
}

struct Trained {
  std::vector<double> losses;
  std::vector<float> weights;  ///< after the last step
  BytesByTraffic sent{};       ///< in the last step, but for what ranks ask one another
};

inline Trained trained(const TinyRunOptions& options, int64_t steps) {
  TinyRun run(options);
  Trained result;
  for (int64_t step = 0; step < steps; ++step) {
    run.trainer().set_reports_details(step == 0);
    const StepReport report = run.step(step);
    EXPECT_FALSE(report.skipped) << "step " << step;
    result.losses.push_back(report.loss);
    result.sent = report.sent;
    result.sent[static_cast<size_t>(Traffic::control)] = 0;
  }
  result.weights = run.weights();
  return result;
}

/// The emulated card with `ref`'s layers has the losses and weights of `ref`.
inline void expect_bits_of_ref(TinyRunOptions options, int64_t steps) {
  SCOPED_TRACE(options.recipe);
  TinyRunOptions card = options;
  card.backend = kCard;
  card.make_backend = [] { return std::unique_ptr<Backend>(new CardWithRefLayers); };
  options.backend = "ref";
  const Trained got = trained(card, steps), want = trained(options, steps);
  EXPECT_EQ(got.losses, want.losses);
  EXPECT_EQ(got.weights, want.weights);
}
inline void expect_bits_of_ref(const ModelConfig& model, const std::string& recipe, int64_t steps) {
  expect_bits_of_ref(options_of(model, recipe, kCard), steps);
}

}  // namespace ng
