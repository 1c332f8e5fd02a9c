// Windows of attention: a token sees no more than the last tokens, of which it is one.
// [Beltagy et al. 2020; Jiang et al. 2023]
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace ng {

/// Token t of a layer with a window sees tokens s with t - size < s <= t, as transformers has it
/// (masking_utils.sliding_window_overlay).
struct Windows {
  int64_t size = 0;            ///< in tokens; 0: no layer has one
  std::vector<bool> layers{};  ///< which have one; empty: all

  [[nodiscard]] bool any() const { return size > 0; }
  /// Of a layer; 0: none.
  [[nodiscard]] int64_t of(int64_t layer) const;
  friend bool operator==(const Windows&, const Windows&) = default;
};

/// Of a model with this context, in the one form that all have that compute the same: none where no
/// layer has one or its size is the context's or more. `layers`: as many as the model has, or none.
[[nodiscard]] Windows windows_that_bind(Windows windows, int64_t context);

/// "4096 tokens", "4096 tokens in 12 of 24 layers".
[[nodiscard]] std::string text_of(const Windows& windows);

}  // namespace ng
