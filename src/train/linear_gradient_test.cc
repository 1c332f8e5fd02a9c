// What a recipe puts around the products of linear layers leaves the gradient that of the loss:
// transforms and their way back, means that go apart. In FP32, so that losses are smooth.
#include "support/loss_gradient.h"

namespace ng {
namespace {

constexpr const char* kTransforms[] = {
    // forward as it is, backward each in its own basis
    R"(linear.dgrad.hadamard = 16
       linear.wgrad.hadamard = 32)",
    "linear.fprop.hadamard = 32",
    // backward of what the forward pass read, in its basis
    R"(linear.fprop.hadamard = 16
       linear.dgrad.weight.from = 'fprop'
       linear.wgrad.input.from = 'fprop')",
    R"(linear.fprop = { hadamard = 32, hadamard_signs = 'fixed' }
       linear.dgrad = { weight.from = 'fprop', hadamard = 64 }
       linear.wgrad = { input.from = 'fprop', hadamard = 16, hadamard_signs = 'layer' })",
};
constexpr const char* kCenters[] = {
    "linear.fprop.center = 'wide'",
    R"(linear.fprop.center = 'operand'
       linear.fprop.hadamard = 16)",
    R"(linear.dgrad.center = 'wide'
       linear.wgrad.center = 'wide')",
    R"(linear.fprop.center = 'wide'
       linear.dgrad = { center = 'operand', hadamard = 32 }
       linear.wgrad = { center = 'wide', hadamard = 16 })",
};
constexpr const char* kLayers[] = {"blocks.0.attn.v", "blocks.0.mlp.up", "blocks.1.attn.out",
                                   "blocks.1.mlp.down"};

TEST(LinearGradient, OfTransformedProductsIsThatOfTheLoss) {
  for (const char* recipe : kTransforms)
    for (const char* layer : kLayers) expect_gradient(recipe, fmt::format("{}.weight", layer));
}

TEST(LinearGradient, OfProductsWithoutTheirMeansIsThatOfTheLoss) {
  for (const char* recipe : kCenters)
    for (const char* layer : kLayers) expect_gradient(recipe, fmt::format("{}.weight", layer));
}

}  // namespace
}  // namespace ng
