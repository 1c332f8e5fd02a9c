// Casts as the words of a command line say them: a format of recipes with changes, or an element.
#pragma once

#include <map>
#include <string>
#include <string_view>

#include "format/operand.h"

namespace ng {

/// What flags said of a cast; empty words say nothing.
struct CastWords {
  std::string format;
  std::map<std::string, std::string, std::less<>> words = {};  ///< by the keys of cast_flags()

  /// Empty where nothing was said.
  [[nodiscard]] std::string_view word(std::string_view key) const;
  [[nodiscard]] bool has(std::string_view key) const { return !word(key).empty(); }

  /// Throws Error naming the flag. A format of recipes goes by their rules; an element without
  /// scale is rounded by the format table; unsigned integers are affine unless the scale is "none".
  [[nodiscard]] Operand operand() const;
};

/// "--scale-rule" of "scale_rule".
[[nodiscard]] std::string flag_of(std::string_view key);

/// One format by its name alone; throws Error naming the nearest.
[[nodiscard]] Operand cast_named(const std::string& name);

/// An operand of a product, as the flag says it: a name as for cast_named(), or a table of operand
/// keys as recipes have it, "{format = \"mxfp4\", ...}", whose cast is FP32 but for what it names.
/// Throws Error naming the flag.
[[nodiscard]] Operand factor_cast(const std::string& flag, const std::string& text);

}  // namespace ng
