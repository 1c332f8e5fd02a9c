// Makes the parts of a model by canonical name: parameters, tensor ids, recipes per layer.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "model/architecture.h"
#include "model/config.h"
#include "nn/adapter.h"
#include "nn/layer.h"
#include "nn/linear.h"
#include "nn/norm.h"
#include "recipe/recipe.h"
#include "run/tensor_table.h"

namespace ng {

class Builder {
 public:
  struct Sources {
    Run& run;
    const ModelConfig& config;
    const Recipe& recipe;
    TensorTable& tensors;  ///< the parameters first
    std::span<Parameter> parameters;
    std::span<Parameter> beside;  ///< what noise learns, adapters
    bool keeps_operands = false;  ///< layers, from forward to backward: Linear::Parts
    /// Layers of the model that is trained, where this one is evaluated beside it.
    std::span<Linear* const> trained{};
  };
  explicit Builder(const Sources& sources) : sources_(sources) {}

  [[nodiscard]] Run& run() const { return sources_.run; }
  [[nodiscard]] const ModelConfig& config() const { return sources_.config; }
  [[nodiscard]] Compute compute() const { return sources_.recipe.compute(0); }

  /// By canonical name; null where the model has none.
  [[nodiscard]] Parameter* find(const std::string& name) const;
  /// By canonical name; a contract violation where the model has none.
  [[nodiscard]] Parameter& parameter(const std::string& name) const;
  /// Names an activation and returns its tensor id.
  [[nodiscard]] uint32_t activation(const std::string& name) const {
    return sources_.tensors.add(name);
  }
  /// Layer `name` with parameters name.weight and, if there, name.bias. `block` -1: none.
  [[nodiscard]] Linear linear(const std::string& name, int64_t block) const;
  /// The head, which may share the embedding's parameter.
  [[nodiscard]] Linear head() const;
  [[nodiscard]] NormLayer norm(const std::string& name) const;
  /// Attention and feed-forward of block `index`. `rope_table` has rows == 0 without RoPE.
  [[nodiscard]] std::unique_ptr<Layer> block(int64_t index, View rope_table) const;

 private:
  [[nodiscard]] std::unique_ptr<Layer> attention_block(int64_t index, View rope_table) const;
  [[nodiscard]] std::unique_ptr<Layer> mlp_block(int64_t index) const;
  [[nodiscard]] std::vector<Linear> linears(int64_t block,
                                            std::span<const std::string_view> parts) const;
  [[nodiscard]] Parameter* find_beside(const std::string& name) const;
  [[nodiscard]] std::optional<LayerNoise> noise_of(const LayerPlace& place) const;
  /// Null where there is no such model.
  [[nodiscard]] const Linear* trained_layer(const std::string& name) const;
  /// In the numbers of `compute`; null where the layer has none.
  [[nodiscard]] std::unique_ptr<Adapter> adapter_of(const Linear& layer) const;
  [[nodiscard]] Linear make_linear(const std::string& name, int64_t block, Parameter& weight) const;

  Sources sources_;
};

}  // namespace ng
