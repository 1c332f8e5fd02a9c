// Rows of a tensor rounded to numbers that stand one by one, or in the blocks of Q8_0.
#pragma once

#include <cstddef>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "format/codec.h"

namespace ng {

/// Throws Error for a finite value that a type has no number for.
using RefuseValue = std::function<void(float value)>;
/// As exports say it, of a tensor of the model `place`.
[[nodiscard]] RefuseValue refuse_value_of(const std::string& place, const std::string& tensor,
                                          std::string_view type);

/// Rounds rows to F32, F16, BF16 or Q8_0.
class PlainRows {
 public:
  PlainRows(std::string_view type, RefuseValue refuse);
  /// Valid until the next call.
  [[nodiscard]] std::span<const std::byte> bytes(std::span<const float> row);

 private:
  std::string type_;
  RefuseValue refuse_;
  std::optional<ElementCodec> codec_;  ///< F16, BF16
  std::vector<uint16_t> codes_;
  std::vector<std::byte> blocks_;
};

}  // namespace ng
