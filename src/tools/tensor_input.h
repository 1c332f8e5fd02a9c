// A file of a weight and of tensors beside it, as commands read one that is the user's.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "io/safetensors.h"

namespace ng {

/// "(2, 3)"
[[nodiscard]] std::string shape_text(const std::vector<int64_t>& shape);

/// A safetensors file with a float tensor `weight` (r, c). Throws Error, naming file and tensor,
/// where one is missing, has another shape, is no float, or holds what is not finite.
class TensorInput {
 public:
  explicit TensorInput(const std::string& path);

  [[nodiscard]] const std::string& path() const { return file_.path(); }
  [[nodiscard]] int64_t rows() const { return rows_; }
  [[nodiscard]] int64_t cols() const { return cols_; }
  [[nodiscard]] std::vector<float> weight() const { return matrix("weight", rows_, cols_); }

  [[nodiscard]] bool has(const std::string& name) const { return file_.find(name) != nullptr; }
  /// Values of a tensor of this shape; where `cols` is 1, of `rows` values in one dimension too.
  [[nodiscard]] std::vector<float> matrix(const std::string& name, int64_t rows,
                                          int64_t cols) const;
  /// Names of the tensors that begin with `prefix`.
  [[nodiscard]] std::vector<std::string> names_with(std::string_view prefix) const;

  [[noreturn]] void refuse(const std::string& tensor, const std::string& problem,
                           const std::string& remedy) const;

 protected:
  [[nodiscard]] const io::SafetensorsEntry& at(const std::string& name) const {
    return file_.at(name);
  }
  [[nodiscard]] const io::SafetensorsEntry& floats(const std::string& name) const;
  void check_finite(const io::SafetensorsEntry& entry, int64_t first,
                    std::span<const float> values) const;

 private:
  io::Safetensors file_;
  int64_t rows_ = 0, cols_ = 0;
};

}  // namespace ng
