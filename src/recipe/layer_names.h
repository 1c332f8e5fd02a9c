// The canonical names of a model's layers: what patterns of recipes match, and what parameters,
// tensor ids and metrics are named by. [recipes.md §0]
#pragma once

#include <fmt/format.h>

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

namespace ng::layers {

inline constexpr std::string_view kEmbed = "embed", kPos = "pos", kNorm = "norm", kHead = "head";

// Parts of a block.
inline constexpr std::string_view kNorm1 = "norm1", kQkv = "attn.qkv", kQ = "attn.q", kK = "attn.k",
                                  kV = "attn.v", kAttnOut = "attn.out", kNorm2 = "norm2",
                                  kGate = "mlp.gate", kUp = "mlp.up", kDown = "mlp.down";

/// Every linear layer that a block of some architecture has.
inline constexpr std::array kLinearsOfBlocks = {kQkv, kQ, kK, kV, kAttnOut, kGate, kUp, kDown};

/// "blocks.3.mlp.up"
[[nodiscard]] inline std::string in_block(int64_t block, std::string_view part) {
  return fmt::format("blocks.{}.{}", block, part);
}

// The parameters of a layer.
[[nodiscard]] inline std::string weight_of(std::string_view layer) {
  return fmt::format("{}.weight", layer);
}
[[nodiscard]] inline std::string bias_of(std::string_view layer) {
  return fmt::format("{}.bias", layer);
}

}  // namespace ng::layers
