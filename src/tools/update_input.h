// The file that `narrowgauge update` reads: a weight, what moves it, and first states.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "tools/tensor_input.h"

namespace ng {

/// Floats:
///   weight (r, c)
///   grad (steps, r, c), or direction (r, c), which is u in every step; a gradient that is named
///                  may be (r, c), one step, and there may be several
///   weight.scale   FP32, what stored elements of the weight are multiplied by; may be absent
///   state.<name>   first states; may be absent
/// Throws Error, naming file and tensor, where one is missing, has another shape, is no float, or
/// holds what is not finite.
class UpdateInput : public TensorInput {
 public:
  explicit UpdateInput(const std::string& path, const TensorNames& names = {});

  [[nodiscard]] bool has_direction() const { return has_direction_; }
  /// Gradients in the file; a direction lasts as long as one likes.
  [[nodiscard]] int64_t gradients() const { return has_direction_ ? 0 : moves_.count(); }

  /// The gradient of update `index` from 0, or the direction: r · c values.
  void read_step(int64_t index, std::span<float> values) const;
  /// `count` FP32 values in any shape.
  [[nodiscard]] std::vector<float> scales(const std::string& name, int64_t count) const;

 private:
  [[nodiscard]] MatrixSeries moves() const;

  bool has_direction_;
  MatrixSeries moves_;  ///< of a direction one
};

}  // namespace ng
