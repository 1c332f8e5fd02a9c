// The file that `narrowgauge update` reads: a weight, what moves it, and first states.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "io/safetensors.h"

namespace ng {

/// A safetensors file of floats:
///   weight (r, c)
///   grad (steps, r, c), or direction (r, c), which is u in every step
///   weight.scale   FP32, what stored elements of the weight are multiplied by; may be absent
///   state.<name>   first states; may be absent
/// Throws Error, naming file and tensor, where one is missing, has another shape, is no float, or
/// holds what is not finite.
class UpdateInput {
 public:
  explicit UpdateInput(const std::string& path);

  [[nodiscard]] const std::string& path() const { return file_.path(); }
  [[nodiscard]] int64_t rows() const { return rows_; }
  [[nodiscard]] int64_t cols() const { return cols_; }
  [[nodiscard]] bool has_direction() const { return has_direction_; }
  /// Gradients in the file; a direction lasts as long as one likes.
  [[nodiscard]] int64_t gradients() const { return gradients_; }

  [[nodiscard]] std::vector<float> weight() const;
  /// The gradient of update `index` from 0, or the direction: r · c values.
  void read_step(int64_t index, std::span<float> values) const;
  [[nodiscard]] bool has(const std::string& name) const { return file_.find(name) != nullptr; }
  /// Values of a tensor of this shape; where `cols` is 1, of `rows` values in one dimension too.
  [[nodiscard]] std::vector<float> matrix(const std::string& name, int64_t rows,
                                          int64_t cols) const;
  /// `count` FP32 values in any shape.
  [[nodiscard]] std::vector<float> scales(const std::string& name, int64_t count) const;
  /// Names of the tensors that begin with `prefix`.
  [[nodiscard]] std::vector<std::string> names_with(std::string_view prefix) const;

  [[noreturn]] void refuse(const std::string& tensor, const std::string& problem,
                           const std::string& remedy) const;

 private:
  [[nodiscard]] const io::SafetensorsEntry& floats(const std::string& name) const;
  void check_finite(const io::SafetensorsEntry& entry, int64_t first,
                    std::span<const float> values) const;

  io::Safetensors file_;
  int64_t rows_ = 0, cols_ = 0, gradients_ = 0;
  bool has_direction_ = false;
};

}  // namespace ng
