// What an owner makes of the codes that ranks have sent. [recipes.md §4.2]
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "backend/ref/rank_sum.h"
#include "comm/gradient_pieces.h"
#include "format/codec.h"

namespace ng {

/// Decodes elements, and their scales where there are any: fl(fl(code·scale)·level), row by row.
class GradientDecoder {
 public:
  explicit GradientDecoder(const ElementFormat& element);
  [[nodiscard]] std::vector<float> values(const ReceivedPiece& piece) const;

 private:
  void decode_row(const std::byte* row, std::span<float> out) const;

  const ElementFormat& element_;
  std::vector<float> table_;  ///< value of each code of at most 16 bits
};

/// How many elements of eight bits are ± the largest value of their format, without their scales.
[[nodiscard]] uint64_t count_largest(const ConstView& elements);
}  // namespace ng
