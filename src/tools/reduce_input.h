// The file that `narrowgauge reduce` reads: one gradient of each rank.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tools/tensor_input.h"

namespace ng {

/// Floats `grad` (ranks, r, c), values of any kind, or what is named in its place: (r, c), of one
/// rank, and several of these. Throws Error, naming file and tensor, where it is missing, has
/// another shape or is no float.
class ReduceInput {
 public:
  explicit ReduceInput(const std::string& path, const TensorNames& names = {});

  [[nodiscard]] int64_t ranks() const { return grads_.count(); }
  [[nodiscard]] int64_t rows() const { return grads_.rows(); }
  [[nodiscard]] int64_t cols() const { return grads_.cols(); }
  /// That of a rank, row by row.
  [[nodiscard]] std::vector<float> gradient(int64_t rank) const;
  /// All gradients added in FP64 in the order of ranks, over their number.
  [[nodiscard]] std::vector<double> mean() const;
  /// Names of all other tensors, where none was named.
  [[nodiscard]] const std::vector<std::string>& unread() const { return unread_; }

 private:
  [[nodiscard]] MatrixSeries read_grads(const std::vector<std::string>& names) const;

  io::NamedTensors file_;
  MatrixSeries grads_;
  std::vector<std::string> unread_;
};

}  // namespace ng
