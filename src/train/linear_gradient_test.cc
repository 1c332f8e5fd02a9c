// What a recipe puts around the products of linear layers leaves the gradient that of the loss:
// transforms and their way back, means that go apart. In FP32, so that losses are smooth.
#include "support/loss_gradient.h"

namespace ng {
namespace {

constexpr const char* kTransforms[] = {
    // forward as it is, backward each in its own basis
    "linear.dgrad.hadamard = 16\nlinear.wgrad.hadamard = 32\n",
    "linear.fprop.hadamard = 32\n",
    // backward of what the forward pass read, in its basis
    "linear.fprop.hadamard = 16\nlinear.dgrad.weight.from = 'fprop'\n"
    "linear.wgrad.input.from = 'fprop'\n",
    "linear.fprop = { hadamard = 32, hadamard_signs = 'fixed' }\n"
    "linear.dgrad = { weight.from = 'fprop', hadamard = 64 }\n"
    "linear.wgrad = { input.from = 'fprop', hadamard = 16, hadamard_signs = 'layer' }\n",
};
constexpr const char* kCenters[] = {
    "linear.fprop.center = 'wide'\n",
    "linear.fprop.center = 'operand'\nlinear.fprop.hadamard = 16\n",
    "linear.dgrad.center = 'wide'\nlinear.wgrad.center = 'wide'\n",
    "linear.fprop.center = 'wide'\nlinear.dgrad = { center = 'operand', hadamard = 32 }\n"
    "linear.wgrad = { center = 'wide', hadamard = 16 }\n",
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
