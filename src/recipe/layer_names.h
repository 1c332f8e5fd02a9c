// The canonical names of a model's layers: what patterns of recipes match, and what parameters,
// tensor ids and metrics are named by. [recipes.md §0]
#pragma once

#include <fmt/format.h>

#include <array>
#include <charconv>
#include <cstdint>
#include <string>
#include <string_view>

namespace ng::layers {

inline constexpr std::string_view kEmbed = "embed", kPos = "pos", kNorm = "norm", kHead = "head";

inline constexpr std::string_view kBlocks = "blocks.";

// Parts of a block.
inline constexpr std::string_view kNorm1 = "norm1", kQkv = "attn.qkv", kQ = "attn.q", kK = "attn.k",
                                  kV = "attn.v", kAttnOut = "attn.out", kNorm2 = "norm2",
                                  kGate = "mlp.gate", kUp = "mlp.up", kDown = "mlp.down",
                                  kQNorm = "attn.q_norm", kKNorm = "attn.k_norm";

// Those that are no layers: what attention and the gate give, and each half of a block.
inline constexpr std::string_view kAttn = "attn", kMlp = "mlp", kMlpAct = "mlp.act";

/// Every linear layer that a block of some architecture has.
inline constexpr std::array kLinearsOfBlocks = {kQkv, kQ, kK, kV, kAttnOut, kGate, kUp, kDown};

/// "blocks.3.mlp.up"
[[nodiscard]] inline std::string in_block(int64_t block, std::string_view part) {
  return fmt::format("{}{}.{}", kBlocks, block, part);
}

/// More than any model has.
inline constexpr int64_t kMostBlocks = int64_t{1} << 30;

/// What in_block() put together; block -1 where a name is of no block. `part` lies in the name.
struct Place {
  int64_t block = -1;
  std::string_view part;
};
[[nodiscard]] inline Place place_of(std::string_view name) {
  Place place;
  const char* end = name.data() + name.size();
  if (!name.starts_with(kBlocks)) return {-1, name};
  const auto [rest, error] = std::from_chars(name.data() + kBlocks.size(), end, place.block);
  const bool is_block = error == std::errc() && place.block >= 0 && place.block < kMostBlocks;
  if (!is_block || rest == end || *rest != '.') return {-1, name};
  place.part = name.substr(static_cast<size_t>(rest + 1 - name.data()));
  return place;
}

// The parameters of a layer.
[[nodiscard]] inline std::string weight_of(std::string_view layer) {
  return fmt::format("{}.weight", layer);
}
[[nodiscard]] inline std::string bias_of(std::string_view layer) {
  return fmt::format("{}.bias", layer);
}
/// What weight noise learns: a bit-width for each block, and where weights are clipped.
[[nodiscard]] inline std::string bits_of(std::string_view layer) {
  return fmt::format("{}.b_i", layer);
}
[[nodiscard]] inline std::string clip_of(std::string_view layer) {
  return fmt::format("{}.alpha", layer);
}
/// The matrices of a low-rank adapter.
[[nodiscard]] inline std::string lora_a_of(std::string_view layer) {
  return fmt::format("{}.lora_a", layer);
}
[[nodiscard]] inline std::string lora_b_of(std::string_view layer) {
  return fmt::format("{}.lora_b", layer);
}
/// The layer that a parameter is of.
[[nodiscard]] inline std::string_view layer_of(std::string_view parameter) {
  return parameter.substr(0, parameter.rfind('.'));
}

}  // namespace ng::layers
