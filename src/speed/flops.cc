#include "speed/flops.h"

namespace ng {

double flops_per_token(Model& model, int64_t length) {
  double weights = 0;
  for (Linear* linear : model.linears())
    weights += static_cast<double>(linear->inputs()) * static_cast<double>(linear->outputs()) *
               linear->weight().spec.cut.parts;
  const ModelConfig& config = model.config();
  const double attention = static_cast<double>(length) *
                           static_cast<double>(config.heads * config.head_dim * config.layers);
  return 6 * (weights + attention);
}

}  // namespace ng
