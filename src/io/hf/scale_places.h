// Which scale each value of a tensor has, by the shapes of both.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "io/hf/quantized_layout.h"

namespace ng::io {

/// In each dimension of the values so many of them share a scale, and so far apart lie the scales
/// of neighbours.
struct ScalePlaces {
  std::vector<int64_t> blocks;
  std::vector<int64_t> strides;

  /// Index of the scale of the first value of a row; rows are counted over all dimensions but the
  /// last of `shape`.
  [[nodiscard]] int64_t of_row(std::span<const int64_t> shape, int64_t row) const;
  /// What value `col` of a row adds to that.
  [[nodiscard]] int64_t in_row(int64_t col) const {
    return blocks.empty() ? 0 : col / blocks.back() * strides.back();
  }

  friend bool operator==(const ScalePlaces&, const ScalePlaces&) = default;
};

/// Scales whose shape alone says which is whose: one; in each dimension one, or one for each value;
/// so for the first dimensions alone: (out) or (out, 1) beside (out, in), (experts) beside
/// (experts, out, in). None where the shapes do not fit so.
[[nodiscard]] std::optional<ScalePlaces> plain_places(std::span<const int64_t> shape,
                                                      std::span<const int64_t> scales);

/// Scales of blocks of the last two dimensions, the last block of each as short as it may be:
/// modelopt's (out/128, 1, in/128, 1), too.
[[nodiscard]] std::optional<ScalePlaces> block_places(std::span<const int64_t> shape,
                                                      std::span<const int64_t> scales,
                                                      const ScaleBlock& block);

/// The shape that the scales of blocks have.
[[nodiscard]] std::vector<int64_t> block_shape(std::span<const int64_t> shape,
                                               const ScaleBlock& block);

}  // namespace ng::io
