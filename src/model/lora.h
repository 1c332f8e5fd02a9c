// Low-rank adapters beside frozen linear layers: y = Q(x)·Q(W)ᵀ + s·(x·Aᵀ)·Bᵀ, where A (rank, in)
// and B (out, rank) alone are trained, and s = alpha/rank [Hu et al. 2022, LoRA] or alpha/√rank
// [Kalajdzievski 2023, rsLoRA].
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace ng {

/// Values of layers by patterns of their names; where several match, the one with the most
/// characters that are no * or ? counts.
template <class Value>
using ByPattern = std::map<std::string, Value, std::less<>>;

struct Lora {
  int64_t rank = 0;  ///< 0: no adapters, all weights are trained
  double alpha = 16;
  /// Patterns of linear layers of blocks: "attn.q", "mlp.*", "blocks.3.*".
  std::vector<std::string> targets = {"attn.*", "mlp.*"};
  ByPattern<int64_t> rank_pattern{};   ///< other ranks
  ByPattern<double> alpha_pattern{};   ///< other alphas
  bool is_rank_stabilized = false;     ///< rsLoRA
  std::vector<std::string> modules{};  ///< patterns of layers that are trained whole: "embed"

  [[nodiscard]] bool is_used() const { return rank > 0; }
  [[nodiscard]] int64_t rank_of(std::string_view layer) const;
  [[nodiscard]] double alpha_of(std::string_view layer) const;
  [[nodiscard]] float scale_of(std::string_view layer) const;
  /// Whether a linear layer, by its canonical name, has an adapter.
  [[nodiscard]] bool means(std::string_view layer) const;
  /// Whether a layer without one is trained itself.
  [[nodiscard]] bool trains(std::string_view layer) const;
  friend bool operator==(const Lora&, const Lora&) = default;
};

}  // namespace ng
