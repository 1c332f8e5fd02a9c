// Operands whose scale is made of the largest magnitude of a tensor are told it by who wrote the
// tensor, in both passes, and it is the one that they would find.
#include <gtest/gtest.h>

#include <map>

#include "backend/wrapped_backend.h"
#include "support/tiny_run.h"

namespace ng {
namespace {

/// Operands of some kind that were made.
struct MadeOperands {
  int64_t all = 0, told = 0;
  friend bool operator==(const MadeOperands&, const MadeOperands&) = default;
};
void PrintTo(const MadeOperands& made, std::ostream* to) {
  *to << made.told << " of " << made.all << " told";
}
using MadeByPurpose = std::map<Purpose, MadeOperands>;

/// The cpu backend, which looks at what operands of activations and gradients are told.
class AskingBackend final : public WrappedBackend {
 public:
  AskingBackend() : WrappedBackend(make_backend("cpu", {2})) {}
  void execute(const Operation& operation) override {
    if (const auto* one = std::get_if<Prepare>(&operation))
      look_at(one->packed->spec, one->context, one->source);
    if (const auto* both = std::get_if<PrepareBoth>(&operation))
      for (const PrepareBoth::Made& made : both->made)
        look_at(made.packed->spec, made.context, both->source);
    WrappedBackend::execute(operation);
  }
  [[nodiscard]] const MadeByPurpose& made() const { return made_; }

 private:
  void look_at(const OperandSpec& spec, const PrepareContext& context, const ConstView& source) {
    const Purpose purpose = context.key.purpose;
    if (!is_scaled_by_source(spec) || purpose == Purpose::fprop_weight ||
        purpose == Purpose::dgrad_weight)
      return;
    MadeOperands& made = made_[purpose];
    ++made.all;
    if (context.amax == nullptr) return;
    ++made.told;
    float own = -1;
    WrappedBackend::execute(
        FindOperandAmax{.amax = &own, .spec = spec, .source = source, .mean = context.mean});
    EXPECT_EQ(float_bits(*context.amax), float_bits(own)) << static_cast<int>(purpose);
  }
  MadeByPurpose made_;
};

MadeByPurpose made_by(const ModelConfig& model, const std::string& recipe,
                      RecomputePolicy recompute = RecomputePolicy::none) {
  TinyRunOptions options{.model = model, .recipe = "name = 'test'\ninherit = '" + recipe + "'\n"};
  options.make_backend = []() -> std::unique_ptr<Backend> {
    return std::make_unique<AskingBackend>();
  };
  options.recompute = recompute;
  TinyRun tiny(options);
  tiny.step(0);
  return static_cast<AskingBackend&>(tiny.run().backend()).made();
}

// Two blocks. Not told is what attention wrote when the backward pass reads it again. For the
// gradients that it writes, of q, k and v side by side in GPT-2, the layer looks once for both
// GEMMs.
TEST(KnownAmax, IsToldByWhoWritesATensor) {
  constexpr MadeOperands kOfX{.all = 8, .told = 8}, kOfXAgain{.all = 8, .told = 6},
      kOfDy{.all = 8, .told = 8}, kOfLlamasDy{.all = 14, .told = 8};
  EXPECT_EQ(made_by(tiny_gpt2(), "fp8-current"),
            (MadeByPurpose{{Purpose::fprop_input, kOfX},
                           {Purpose::dgrad_grad, kOfDy},
                           {Purpose::wgrad_grad, kOfDy},
                           {Purpose::wgrad_input, kOfXAgain}}));
  EXPECT_EQ(made_by(tiny_llama(), "fp8-delayed"),
            (MadeByPurpose{{Purpose::fprop_input, {.all = 14, .told = 14}},
                           {Purpose::dgrad_grad, kOfLlamasDy},
                           {Purpose::wgrad_grad, kOfLlamasDy},
                           {Purpose::wgrad_input, {.all = 14, .told = 12}}}));
  // Those of wgrad go through a transform.
  EXPECT_EQ(made_by(tiny_llama(), "nvfp4-all"),
            (MadeByPurpose{{Purpose::fprop_input, kOfX}, {Purpose::dgrad_grad, kOfLlamasDy}}));
}

// The forward pass of a block is done twice.
TEST(KnownAmax, IsToldWhereBlocksAreComputedAgain) {
  EXPECT_EQ(made_by(tiny_llama(), "nvfp4-all", RecomputePolicy::block).at(Purpose::fprop_input),
            (MadeOperands{.all = 16, .told = 16}));
}

}  // namespace
}  // namespace ng
