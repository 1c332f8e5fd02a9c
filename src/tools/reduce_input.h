// The file that `narrowgauge reduce` reads: one gradient of each rank.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "io/safetensors.h"

namespace ng {

/// A safetensors file of floats `grad` (ranks, r, c), values of any kind. Throws Error, naming file
/// and tensor, where it is missing, has another shape or is no float.
class ReduceInput {
 public:
  explicit ReduceInput(const std::string& path);

  [[nodiscard]] int64_t ranks() const { return ranks_; }
  [[nodiscard]] int64_t rows() const { return rows_; }
  [[nodiscard]] int64_t cols() const { return cols_; }
  /// That of a rank, row by row.
  [[nodiscard]] std::vector<float> gradient(int64_t rank) const;
  /// All gradients added in FP64 in the order of ranks, over their number.
  [[nodiscard]] std::vector<double> mean() const;
  /// Names of all other tensors.
  [[nodiscard]] std::vector<std::string> unread() const;

 private:
  io::Safetensors file_;
  int64_t ranks_ = 0, rows_ = 0, cols_ = 0;
};

}  // namespace ng
