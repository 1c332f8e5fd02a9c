// Low-rank adapters beside frozen linear layers: y = Q(x)·Q(W)ᵀ + alpha/rank·(x·Aᵀ)·Bᵀ, where A
// (rank, in) and B (out, rank) alone are trained. [Hu et al. 2022, LoRA]
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace ng {

struct Lora {
  int64_t rank = 0;  ///< 0: no adapters, all weights are trained
  double alpha = 16;
  /// Patterns of linear layers of blocks: "attn.q", "mlp.*", "blocks.3.*".
  std::vector<std::string> targets = {"attn.*", "mlp.*"};

  [[nodiscard]] bool is_used() const { return rank > 0; }
  [[nodiscard]] float scale() const {
    return static_cast<float>(alpha / static_cast<double>(rank));
  }
  /// Whether a linear layer, by its canonical name, has an adapter.
  [[nodiscard]] bool means(std::string_view layer) const;
  friend bool operator==(const Lora&, const Lora&) = default;
};

}  // namespace ng
