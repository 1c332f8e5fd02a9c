#include "train/self_check.h"

#include <gtest/gtest.h>

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
                           "mxfp4-sr-rht-fp8fwd", "nvfp4-1d"})
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
class WithoutProducts final : public Backend {
 public:
  explicit WithoutProducts(Backend& backend) : backend_(backend) {}
  [[nodiscard]] std::string_view name() const override { return "without products"; }
  [[nodiscard]] size_t scratch_bytes() const override { return 0; }
  std::byte* allocate(size_t bytes) override { return backend_.allocate(bytes); }
  void release(std::byte* memory, size_t bytes) override { backend_.release(memory, bytes); }
  void upload(std::byte* to, const void* from, size_t bytes) override {
    backend_.upload(to, from, bytes);
  }
  void download(void* to, const std::byte* from, size_t bytes) const override {
    backend_.download(to, from, bytes);
  }
  [[nodiscard]] size_t operand_bytes(const OperandSpec& spec) const override {
    return backend_.operand_bytes(spec);
  }
  void execute(const Operation& operation) override {
    if (!std::holds_alternative<Gemm>(operation)) backend_.execute(operation);
  }

 private:
  Backend& backend_;
};

TEST(SelfCheck, AWrongProductIsRefused) {
  const auto reference = make_backend("ref", {1});
  WithoutProducts nothing(*reference);
  const std::vector<LinearRecipe> recipes = {layer_of("mxfp4-all")};
  EXPECT_THROW(self_check(nothing, *reference, recipes, Compute::fp32), Error);
}

}  // namespace
}  // namespace ng
