// What becomes of the products of a linear layer whose recipe has `gradient` or `center`, against
// an independent oracle, on every backend: tests/golden/linear.
#include <gtest/gtest.h>

#include <optional>

#include "nn/outside_linear.h"
#include "run/backends.h"
#include "support/golden_file.h"
#include "support/stored_tensor.h"

namespace ng {
namespace {

/// FP32 values in memory of a backend.
struct LayerTensor : StoredTensor {
  LayerTensor(Backend& backend, const std::vector<int64_t>& shape)
      : StoredTensor(backend, operand_of("fp32"), shape[0], shape[1]) {}
  LayerTensor(Backend& backend, const GoldenFile& golden, const std::string& name)
      : LayerTensor(backend, golden.shape(name)) {
    put_floats(golden.floats(name).data());
  }
};

void expect_near(const GoldenFile& golden, const std::string& name, const LayerTensor& made) {
  const std::vector<float> got = made.floats(), want = golden.floats(name),
                           bound = golden.floats(name + ".tolerance");
  ASSERT_EQ(got.size(), want.size());
  for (size_t i = 0; i < got.size(); ++i)
    ASSERT_NEAR(got[i], want[i], bound[i]) << name << ' ' << i;
}

void expect_products(const char* backend, const GoldenFile& golden, const std::string& name,
                     const Json& facts) {
  Run run(make_backend(backend, {2}), std::stoull(facts["seed"].get<std::string>()));
  const uint32_t step = facts["step"], micro = facts["micro"];
  run.set_moment({.step = step, .micro = micro, .first_micro = micro});
  const LayerTensor x(run.backend(), golden, name + ".input"),
      w(run.backend(), golden, name + ".weight"), dy(run.backend(), golden, name + ".grad");
  const LinearRecipe recipe = Recipe::load(facts["toml"].get<std::string>())
                                  .linear({.name = "blocks.0.mlp.up", .block = 0, .depth = 1}, 0);
  OutsideLinear layer(run, {.name = "blocks.0.mlp.up",
                            .phases = {recipe},
                            .outputs = w.view().rows,
                            .inputs = w.view().cols,
                            .has_bias = golden.has(name + ".bias"),
                            .weight_id = facts["tensor_id"],
                            .input_id = facts["input_id"],
                            .output_id = facts["output_id"]});
  std::optional<LayerTensor> bias;
  OutsideLinear::Weights weights{.weight = w.view()};
  if (golden.has(name + ".bias")) {
    bias.emplace(run.backend(), std::vector<int64_t>{1, w.view().rows});
    bias->put_floats(golden.floats(name + ".bias").data());
    weights.bias = bias->view();
  }
  const LayerTensor y(run.backend(), golden.shape(name + ".output")),
      dx(run.backend(), golden.shape(name + ".input_grad")),
      dw(run.backend(), golden.shape(name + ".weight_grad"));
  layer.forward(weights, x.view(), y.view());
  layer.backward(weights, {x.view()}, dy.view(), {.input = dx.view(), .weight = dw.view()});
  expect_near(golden, name + ".output", y);
  expect_near(golden, name + ".input_grad", dx);
  expect_near(golden, name + ".weight_grad", dw);
}

TEST(LinearProducts, AreThoseOfTheOracle) {
  const GoldenFile golden("linear/products");
  EXPECT_EQ(golden.cases().size(), 11u);
  for (const char* backend : {"ref", "cpu"})
    for (const auto& [name, facts] : golden.cases().items()) {
      SCOPED_TRACE(std::string(backend) + ' ' + name);
      expect_products(backend, golden, name, facts);
    }
}

}  // namespace
}  // namespace ng
