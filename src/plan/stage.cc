#include "plan/stage.h"

#include "recipe/layer_names.h"

namespace ng {

bool Stage::has(const ParameterSpec& parameter, const ModelConfig& model) const {
  const std::string_view layer = layers::layer_of(parameter.name);
  const int64_t block = layers::place_of(layer).block;
  if (block >= 0) return block / blocks(model) == index;
  if (layer == layers::kNorm || layer == layers::kHead) return is_last();
  return index == 0 || (is_last() && layer == layers::kEmbed && model.tie_embeddings);
}

}  // namespace ng
