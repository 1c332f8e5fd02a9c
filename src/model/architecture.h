// What differs between architectures: one row here, one file each.
#pragma once

#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "model/config.h"
#include "nn/norm.h"

namespace ng {

/// Of an architecture, in which layers attention may have a window.
enum class WindowLayers : uint8_t { none, all, any };

struct ArchitectureParts {
  Architecture architecture;
  std::string_view name;      ///< "llama": model_type of transformers
  std::string_view hf_class;  ///< "LlamaForCausalLM"
  NormKind norm;
  bool learned_positions;                ///< else RoPE
  bool head_norms = false;               ///< q and k are normalized by head, before RoPE
  bool output_bias = true;               ///< attention's biases are attn.out's, too
  std::optional<bool> attention_bias{};  ///< whether there always, or never, are such biases
  std::optional<bool> mlp_bias{};
  WindowLayers windows = WindowLayers::none;
  std::span<const std::string_view> projections;  ///< layers that make q, k and v, in this order
  std::span<const std::string_view> mlp_inputs;   ///< up, or gate and up
  std::vector<ParameterSpec> (*parameters)(const ModelConfig& config);
};

extern const ArchitectureParts kGpt2;
extern const ArchitectureParts kLlama;
extern const ArchitectureParts kMistral;
extern const ArchitectureParts kQwen2;
extern const ArchitectureParts kQwen3;

[[nodiscard]] const ArchitectureParts& parts_of(Architecture architecture);

/// By name; null where there is none.
[[nodiscard]] const ArchitectureParts* find_architecture(std::string_view name);

/// "gpt2", "llama", ...
[[nodiscard]] std::vector<std::string_view> architecture_names();

/// The linear layers of a block in forward order: "attn.q", ..., "mlp.down".
[[nodiscard]] std::vector<std::string_view> linears_of_block(const ArchitectureParts& parts);

}  // namespace ng
