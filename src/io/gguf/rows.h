// Rows of a weight as the bytes of a GGUF tensor.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "format/codec.h"
#include "io/gguf/gguf.h"
#include "io/narrow_form.h"

namespace ng {

/// What form a type of GGUF has; none of those that store values one by one, and of Q8_0.
[[nodiscard]] std::optional<NarrowForm> narrow_form_of(std::string_view gguf_type);

/// Rounds rows to F32, F16, BF16 or Q8_0.
class PlainRows {
 public:
  /// `place` and `tensor` are for errors.
  PlainRows(std::string_view type, std::string place, std::string tensor);
  /// Valid until the next call. Throws Error for a finite value that the type has no number for.
  [[nodiscard]] std::span<const std::byte> bytes(std::span<const float> row);

 private:
  void require_q8_0(std::span<const float> row) const;

  std::string type_, place_, tensor_;
  std::optional<ElementCodec> codec_;  ///< F16, BF16
  std::vector<uint16_t> codes_;
  std::vector<std::byte> blocks_;
};

/// Row `row` of a matrix whose cast the form holds, in GGUF's blocks.
[[nodiscard]] std::vector<std::byte> gguf_row(const NarrowMatrix& matrix, NarrowForm form,
                                              int64_t row);

}  // namespace ng
