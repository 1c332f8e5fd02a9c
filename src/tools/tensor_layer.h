// Which parameter of a model a tensor is, by the name that a file gives it.
#pragma once

#include <map>
#include <string>
#include <string_view>

#include "io/safetensors.h"
#include "recipe/recipe.h"

namespace ng {

/// What a tensor's name says: "blocks.0.mlp.up.weight" of itself,
/// "model.layers.0.mlp.up_proj.weight" with the model's config.json beside the file.
struct NamedParameter {
  std::string name;        ///< canonical: "blocks.0.mlp.up.weight"; empty: it is none that is known
  int64_t blocks = 0;      ///< of the model; 0: not known
  bool is_turned = false;  ///< a matrix stored as (in, out): GPT-2's in transformers
  bool is_vector = false;
  bool is_head = false;  ///< an embedding that the head's products read too
};

/// Remembers the models of files that it was asked about.
class ParameterNames {
 public:
  /// A name may begin with what this program's files put before it: "grad.", "step4.", "weight.".
  [[nodiscard]] NamedParameter of(const io::SafetensorsEntry& tensor);

 private:
  struct OfFile {
    std::map<std::string, NamedParameter, std::less<>> names;  ///< as transformers has them
    int64_t blocks = 0;                                        ///< of what capture wrote
  };
  const OfFile& model_of(const std::string& file);
  std::map<std::string, OfFile> models_;  ///< by the file
};

/// The layer or parameter whose overrides apply to a weight: what the user says or, else, what the
/// tensor's name says or, else, blocks.0.mlp.up, a layer as most are.
struct LayerOfWeight {
  std::string name;
  int64_t blocks = 0;  ///< of the model; 0: the layer's is the last
  bool is_turned = false;
};
[[nodiscard]] LayerOfWeight layer_of_weight(const io::SafetensorsEntry& weight,
                                            const std::string& layer, int64_t blocks);
/// The same of a weight that stands for its layer: "blocks.0.mlp.up".
[[nodiscard]] LayerOfWeight layer_of_linear(const io::SafetensorsEntry& weight,
                                            const std::string& layer, int64_t blocks);

/// Where a linear layer of a block stands, as a recipe is asked for it; the name lies in `of`.
/// Throws Error, naming the flags --layer and --blocks, for what is none. `or_head`: it may be the
/// head as well.
[[nodiscard]] LayerPlace linear_place(const LayerOfWeight& of, bool or_head = false);

/// Whether canonical names call a layer so: "blocks.0.mlp.up", "blocks.0.norm1", "embed", "head".
[[nodiscard]] bool is_layer(std::string_view name);
/// The same of a parameter: "blocks.0.mlp.up.weight", ".bias", ".b_i".
[[nodiscard]] bool is_parameter(std::string_view name);
/// Such a layer has a vector: it is a norm.
[[nodiscard]] bool is_norm_layer(std::string_view name);

}  // namespace ng
