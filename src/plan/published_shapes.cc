#include "plan/published_shapes.h"

#include <algorithm>

#include "model/tensor_parallel.h"
#include "plan/stage.h"
#include "recipe/layer_names.h"

namespace ng {
namespace {

ModelConfig gpt(int64_t blocks, int64_t heads) {
  constexpr int64_t kHeadDim = 128;
  return {.architecture = Architecture::gpt2,
          .vocab = 51200,
          .layers = blocks,
          .heads = heads,
          .kv_heads = heads,
          .head_dim = kHeadDim,
          .width = heads * kHeadDim,
          .ffn = 4 * heads * kHeadDim,
          .context = 2048,
          .tie_embeddings = false,
          .attention_bias = true,
          .mlp_bias = true,
          .norm_bias = true};
}

}  // namespace

// Volumes: MS-AMP's documentation, as distributed.md §2 quotes it.
std::span<const PublishedShape> published_shapes() {
  static const PublishedShape kShapes[] = {
      {"gpt-7b", gpt(32, 32), 1, 1, 32, 37.2, 13.9},
      {"gpt-13b", gpt(40, 40), 2, 1, 16, 34.3, 12.4},
      {"gpt-175b", gpt(96, 96), 8, 4, 4, 23.4, 8.2, PublishedMemory{66.1, 40.3, 57.7}},
  };
  return kShapes;
}

const PublishedShape* find_published_shape(std::string_view name) {
  for (const PublishedShape& shape : published_shapes())
    if (shape.name == name) return &shape;
  return nullptr;
}

std::vector<ParameterSpec> parameters_of_first_stage(const PublishedShape& shape) {
  std::vector<ParameterSpec> specs = parameter_table(shape.config);
  const Stage first{.index = 0, .of = shape.pipeline};
  std::erase_if(specs, [&](const ParameterSpec& spec) { return !first.has(spec, shape.config); });
  specs = tensor_parallel_parts(std::move(specs), shape.tensor);
  for (ParameterSpec& spec : specs) {  // their embedding and head are cut by the vocabulary
    const std::string_view layer = layers::layer_of(spec.name);
    if (layer == layers::kEmbed || layer == layers::kHead)
      spec.rows = (spec.rows + shape.tensor - 1) / shape.tensor;
  }
  return specs;
}

}  // namespace ng
