// Muon's numbers. [Jordan et al. 2024; recipes.md §6; errata-2, 17]
#pragma once

namespace ng {

struct MuonNumbers {
  float momentum = 0.95f;
  int steps = 5;
  /// X <- a·X + (b·A + c·A²)·X, A = X·Xᵀ: singular values between 0 and 1 go near 1.
  float a = 3.4445f, b = -4.7750f, c = 2.0315f;
  float update_size = 0.2f;  ///< a step's root mean square is about AdamW's
};
inline constexpr MuonNumbers kMuon;

}  // namespace ng
