#include "speed/flops.h"

namespace ng {
namespace {

// Keys of a token, on average: half the length; with a window w a trapezoid, w - w²/(2 length).
double twice_the_keys(int64_t length, int64_t window) {
  const auto all = static_cast<double>(length), most = static_cast<double>(window);
  return window == 0 || window >= length ? all : 2 * most - most * most / all;
}

}  // namespace

double flops_per_token(Model& model, int64_t length) {
  double weights = 0;
  for (Linear* linear : model.linears())
    weights += static_cast<double>(linear->inputs()) * static_cast<double>(linear->outputs()) *
               linear->weight().spec.cut.parts;
  const ModelConfig& config = model.config();
  double attention = 0;
  for (int64_t layer = 0; layer < config.layers; ++layer)
    attention += twice_the_keys(length, config.windows.of(layer)) *
                 static_cast<double>(config.heads * config.head_dim);
  return 6 * (weights + attention);
}

}  // namespace ng
