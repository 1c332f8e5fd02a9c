// The three GEMMs of a linear layer multiply the operands that recipes.md §0 names: which matrix,
// cast along which dimension, under which random key and which Hadamard signs.
#include "nn/linear.h"

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <numeric>
#include <utility>

#include "format/hadamard.h"
#include "run/backends.h"
#include "support/prepared_operand.h"

namespace ng {
namespace {

constexpr int64_t kLinearTokens = 37, kInputs = 70, kOutputs = 45;
constexpr uint64_t kSeed = 11;
constexpr uint32_t kLinearInputId = 3, kLinearWeightId = 5, kLinearOutputId = 8;
constexpr Moment kMoment = {.step = 6, .micro = 1, .micros = 2};

using LinearValues = std::vector<float>;

LinearValues random_values(int64_t count, uint32_t seed) {
  LinearValues values(static_cast<size_t>(count));
  const RandomKey key{.seed = seed, .tensor = 0, .step = 0, .purpose = Purpose::init};
  for (size_t i = 0; i < values.size(); ++i)
    values[i] = static_cast<float>(draw(key, i)[0]) * 0x1p-31f - 1.0f;
  return values;
}

/// One operand by the words of the specification.
struct OperandRule {
  const Operand* cast;
  Contract contract;
  uint32_t tensor;
  Purpose purpose;
  uint32_t micro;
};

/// One GEMM of the layer: left · rightᵀ over matrices of the test.
struct GemmRule {
  const GemmRecipe* recipe;
  uint32_t sign_group;  // in purpose 11: dgrad 0, wgrad 1, fprop 2
  OperandRule left, right;
};

int64_t padding_of(const GemmRecipe& gemm) {
  int64_t multiple = std::max(gemm.hadamard, 1);
  for (const Operand* cast : {&gemm.left, &gemm.right})
    if (cast->block.kind == Block::Kind::tile)
      multiple = std::lcm(multiple, static_cast<int64_t>(cast->block.cols));
  return multiple;
}

SignBits signs_of_rule(const GemmRule& gemm) {
  if (gemm.recipe->hadamard_signs == HadamardSigns::none) return {};
  if (gemm.recipe->hadamard_signs == HadamardSigns::fixed) return fixed_signs();
  return signs_of({.seed = kSeed,
                   .tensor = kLinearWeightId,
                   .step = kMoment.step,
                   .purpose = Purpose::hadamard_signs},
                  gemm.sign_group);
}

ref::Prepared prepared(const GemmRule& gemm, const OperandRule& rule, ConstView source) {
  OperandSpec spec = ref::spec_of(*rule.cast, source, rule.contract, padding_of(*gemm.recipe));
  if (gemm.recipe->hadamard > 0) spec.hadamard = {gemm.recipe->hadamard, signs_of_rule(gemm)};
  PrepareContext context;
  context.key = {.seed = kSeed,
                 .tensor = rule.tensor,
                 .step = kMoment.step,
                 .purpose = rule.purpose,
                 .micro = rule.micro};
  return {spec, source, context};
}

// y = left · rightᵀ in FP64, and for each value what FP32 sums may be off by.
struct Product {
  std::vector<double> values, bounds;
};
Product product(const GemmRule& gemm, ConstView left, ConstView right) {
  const ref::Prepared a = prepared(gemm, gemm.left, left);
  const ref::Prepared b = prepared(gemm, gemm.right, right);
  const double factor = double{hadamard_alpha(gemm.recipe->hadamard)} /
                        (double{gemm.left.cast->prescale} * double{gemm.right.cast->prescale});
  const OperandSpec& spec = a.packed().spec;
  Product y;
  for (int64_t m = 0; m < spec.rows; ++m)
    for (int64_t n = 0; n < b.packed().spec.rows; ++n) {
      double sum = 0, magnitude = 0;
      for (int64_t k = 0; k < spec.k_padded(); ++k) {
        const double term = double{a.value(m, k)} * double{b.value(n, k)};
        sum += term;
        magnitude += std::fabs(term);
      }
      y.values.push_back(sum * factor);
      // One rounding per term and a few of scales and the factor, at most half an ulp each.
      y.bounds.push_back(magnitude * factor * double(spec.k_padded() + 8) * 0x1p-24);
    }
  return y;
}

void expect_product(const Rows<const float>& y, const Product& want, Compute round,
                    const char* what) {
  for (int64_t r = 0; r < y.rows; ++r)
    for (int64_t c = 0; c < y.cols; ++c) {
      const auto i = static_cast<size_t>(r * y.cols + c);
      const double rounding = round == Compute::bf16 ? std::fabs(want.values[i]) * 0x1p-8 : 0.0;
      ASSERT_NEAR(y.row(r)[c], want.values[i], want.bounds[i] + rounding)
          << what << ' ' << r << ' ' << c;
    }
}

// A layer on a backend, run once forward and backward.
class LinearPasses {
 public:
  LinearPasses(const std::string& backend, const LinearRecipe& recipe)
      : run_(make_backend(backend, Threads{2}), kSeed),
        x_(matrix(kLinearTokens, kInputs)),
        dy_(matrix(kLinearTokens, kOutputs)),
        w_(matrix(kOutputs, kInputs)),
        y_(matrix(kLinearTokens, kOutputs)),
        dx_(matrix(kLinearTokens, kInputs)),
        dw_(matrix(kOutputs, kInputs)) {
    weight_.id = kLinearWeightId;
    weight_.weight.value = stored_plainly(w_);
    fill(x_, 1), fill(dy_, 2), fill(w_, 3);
    Linear linear(run_, {.name = "layer",
                         .output = kLinearOutputId,
                         .weight = &weight_,
                         .bias = nullptr,
                         .phases = {recipe}});
    linear.set_stats(stats_.data());
    run_.set_moment(kMoment);
    const auto body = [&] {
      Source x(Tensor(), x_, kLinearInputId), dy(Tensor(), dy_, kLinearOutputId);
      linear.fprop(run_, y_, x);
      linear.make_gradient_operands(run_, dy);
      linear.dgrad(run_, dx_, Into::overwrite, x, dy);
      linear.wgrad(run_, {dw_, Into::overwrite}, x, dy);
      forget_step(weight_);
    };
    const Program program = run_.record(body);
    run_.reserve({&program});
    run_.replay(program, body);
  }

  [[nodiscard]] Rows<const float> x() const { return x_; }
  [[nodiscard]] Rows<const float> dy() const { return dy_; }
  [[nodiscard]] Rows<const float> w() const { return w_; }
  [[nodiscard]] Rows<const float> y() const { return y_; }
  [[nodiscard]] Rows<const float> dx() const { return dx_; }
  [[nodiscard]] Rows<const float> dw() const { return dw_; }
  [[nodiscard]] const OperandStats& stats(OperandRole role) const {
    return stats_[static_cast<size_t>(role)];
  }

 private:
  Rows<float> matrix(int64_t rows, int64_t cols) {
    return {run_.persistent_values<float>("matrix", static_cast<size_t>(rows * cols)), rows, cols,
            cols};
  }
  static void fill(const Rows<float>& view, uint32_t seed) {
    const LinearValues values = random_values(view.size(), seed);
    std::copy(values.begin(), values.end(), view.data);
  }

  Run run_;
  Parameter weight_;
  Rows<float> x_, dy_, w_, y_, dx_, dw_;
  std::array<OperandStats, kOperandRoles> stats_{};
};

class LinearRecipes : public ::testing::TestWithParam<const char*> {};

TEST_P(LinearRecipes, MultiplyTheOperandsOfTheSpecification) {
  const LinearRecipe r = Recipe::parse(GetParam(), "test.toml")
                             .linear({.name = "blocks.0.mlp.up", .block = 0, .depth = 4}, 0);
  const uint32_t micro = kMoment.micro;
  using enum Contract;
  const GemmRule fprop = {&r.fprop,
                          2,
                          {&r.fprop.left, cols, kLinearInputId, Purpose::fprop_input, micro},
                          {&r.fprop.right, cols, kLinearWeightId, Purpose::fprop_weight, 0}};
  const GemmRule dgrad = {&r.dgrad,
                          0,
                          {&r.dgrad.left, cols, kLinearOutputId, Purpose::dgrad_grad, micro},
                          {&r.dgrad.right, rows, kLinearWeightId, Purpose::dgrad_weight, 0}};
  const GemmRule wgrad = {&r.wgrad,
                          1,
                          {&r.wgrad.left, rows, kLinearOutputId, Purpose::wgrad_grad, micro},
                          {&r.wgrad.right, rows, kLinearInputId, Purpose::wgrad_input, micro}};
  for (const char* backend : {"ref", "cpu"}) {
    SCOPED_TRACE(backend);
    const LinearPasses passes(backend, r);
    expect_product(passes.y(), product(fprop, passes.x(), passes.w()), r.fprop.output, "fprop");
    expect_product(passes.dx(), product(dgrad, passes.dy(), passes.w()), r.dgrad.output, "dgrad");
    expect_product(passes.dw(), product(wgrad, passes.dy(), passes.x()), Compute::fp32, "wgrad");
  }
}

// Each operand is made, and counted, once: also those of the gradient, which are made together.
TEST(Linear, MakesEveryOperandOnce) {
  const LinearRecipe recipe = Recipe::parse("inherit='mxfp4-all'", "test.toml")
                                  .linear({.name = "blocks.0.mlp.up", .block = 0, .depth = 4}, 0);
  for (const char* backend : {"ref", "cpu"}) {
    const LinearPasses passes(backend, recipe);
    const std::pair<OperandRole, int64_t> sizes[] = {
        {OperandRole::fprop_input, kLinearTokens * kInputs},
        {OperandRole::fprop_weight, kOutputs * kInputs},
        {OperandRole::dgrad_grad, kLinearTokens * kOutputs},
        {OperandRole::dgrad_weight, kOutputs * kInputs},
        {OperandRole::wgrad_grad, kLinearTokens * kOutputs},
        {OperandRole::wgrad_input, kLinearTokens * kInputs}};
    for (const auto& [role, size] : sizes)
      EXPECT_EQ(passes.stats(role).values, static_cast<uint64_t>(size)) << name_of(role);
  }
}

// What a GEMM gives is made wide, and rounded then by draws of its own.
TEST(Linear, NarrowsWhatItsGemmsGive) {
  const auto recipe = [](const std::string& outputs) {
    return Recipe::parse("inherit='mxfp8'\ncompute='fp32'\n" + outputs, "test.toml")
        .linear({.name = "blocks.0.mlp.up", .block = 0, .depth = 4}, 0);
  };
  const LinearRecipe wide = recipe("");
  const LinearRecipe narrow = recipe(
      "linear.fprop.output={format='int8', block=[32,32]}\n"
      "linear.dgrad.output={format='int8', block=[32,32], rounding='stochastic'}");
  const auto expect_rounded = [](ConstView made, ConstView whole, const Operand& cast,
                                 Purpose purpose) {
    PrepareContext context;
    context.key = {.seed = kSeed,
                   .tensor = kLinearOutputId,
                   .step = kMoment.step,
                   .purpose = purpose,
                   .micro = kMoment.micro};
    const ref::Prepared want(cast, whole, cast.block.cols, Contract::cols, context);
    for (int64_t r = 0; r < made.rows; ++r)
      for (int64_t c = 0; c < made.cols; ++c)
        ASSERT_EQ(made.as<const float>().row(r)[c], want.value(r, c)) << r << ' ' << c;
  };
  for (const char* backend : {"ref", "cpu"}) {
    SCOPED_TRACE(backend);
    const LinearPasses whole(backend, wide), made(backend, narrow);
    expect_rounded(made.y(), whole.y(), narrow.fprop.narrow_output, Purpose::fprop_output);
    expect_rounded(made.dx(), whole.dx(), narrow.dgrad.narrow_output, Purpose::dgrad_output);
    for (int64_t r = 0; r < made.dw().rows; ++r)
      for (int64_t c = 0; c < made.dw().cols; ++c)
        ASSERT_EQ(made.dw().row(r)[c], whole.dw().row(r)[c]) << r << ' ' << c;
  }
}

INSTANTIATE_TEST_SUITE_P(
    Named, LinearRecipes,
    ::testing::Values("inherit='fp32'", "inherit='bf16'", "inherit='mxfp4-all'",
                      "inherit='mxfp4-sr-rht'", "inherit='nvfp4-all'", "inherit='fp8-current'",
                      "inherit='mxfp6'", "inherit='int8'", "inherit='fqt'",
                      // One operand with block scales, the other without, either way round.
                      "linear.fprop={input='bf16', weight='mxfp4'}\n"
                      "linear.dgrad={grad='mxfp4', weight='bf16'}\n"
                      "linear.wgrad={grad='mxfp4', input='bf16'}",
                      "linear.fprop={input='nvfp4', weight='fp16'}\n"
                      "linear.dgrad={grad='fp8_e5m2', weight='mxfp4'}\n"
                      "linear.wgrad={grad='fp32', input='nvfp4'}",
                      // Every operand draws, every GEMM transforms.
                      "linear.fprop={hadamard=32, input={format='mxfp4', rounding='stochastic'},"
                      " weight={format='mxfp4', rounding='stochastic'}}\n"
                      "linear.dgrad={hadamard=64, grad={format='mxfp4', rounding='stochastic',"
                      " prescale=0.75}, weight={format='mxfp4', rounding='stochastic'}}\n"
                      "linear.wgrad={hadamard=16, grad={format='nvfp4', rounding='stochastic'},"
                      " input={format='mxfp8_e4m3', rounding='stochastic', prescale=0.5}}"));

}  // namespace
}  // namespace ng
