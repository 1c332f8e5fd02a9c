#include "train/self_check.h"

#include <gtest/gtest.h>

#include "backend/wrapped_backend.h"
#include "base/error.h"
#include "base/isa.h"
#include "run/backends.h"

namespace ng {
namespace {

LinearRecipe layer_of(const char* recipe) {
  return Recipe::load(recipe).linear({.name = "blocks.1.mlp.up", .block = 1, .depth = 6}, 0);
}

TEST(SelfCheck, EveryInstructionSetMultipliesAsDefined) {
  const auto reference = make_backend("ref", {1});
  const auto cpu = make_backend("cpu", {2});
  std::vector<LinearRecipe> recipes;
  for (const char* name : {"fp32", "bf16", "fp8-delayed", "int8", "mxfp6", "mxfp4-all", "nvfp4-all",
                           "mxfp4-sr-rht-fp8fwd", "nvfp4-1d", "bf16-tile", "fp8-current-tile"})
    recipes.push_back(layer_of(name));
  for (const Isa isa : supported_isas()) {
    force_isa(isa);
    for (const Compute compute : {Compute::fp32, Compute::bf16})
      EXPECT_GT(self_check(*cpu, *reference, recipes, compute), 9) << name_of(isa);
  }
  force_isa("auto");
}

TEST(SelfCheck, EqualGemmsRunOnce) {
  const auto reference = make_backend("ref", {1});
  const std::vector<LinearRecipe> recipes(3, layer_of("mxfp4-all"));
  EXPECT_EQ(self_check(*reference, *reference, recipes, Compute::bf16), 3);
}

/// Leaves products as they are.
class WithoutProducts final : public WrappedBackend {
 public:
  WithoutProducts(std::unique_ptr<Backend> backend, SumUnits units)
      : WrappedBackend(std::move(backend)), units_(units) {}
  [[nodiscard]] SumUnits sum_units(const OperandSpec& /* a */, const OperandSpec& /* b */,
                                   SumOrder /* sum */) const override {
    return units_;
  }
  [[nodiscard]] std::string_view name() const override { return "without products"; }
  void execute(const Operation& operation) override {
    if (!std::holds_alternative<Gemm>(operation)) WrappedBackend::execute(operation);
  }

 private:
  SumUnits units_;
};

TEST(SelfCheck, AWrongProductIsRefused) {
  const auto reference = make_backend("ref", {1});
  const std::vector<LinearRecipe> recipes = {layer_of("mxfp4-all")};
  for (const SumUnits units : {SumUnits::defined, SumUnits::fp32, SumUnits::fp8}) {
    WithoutProducts nothing(make_backend("ref", {1}), units);
    EXPECT_THROW(self_check(nothing, *reference, recipes, Compute::fp32), Error)
        << static_cast<int>(units);
  }
}

}  // namespace
}  // namespace ng
