// The cast that flags of a command describe: a format of recipes with changes, or an element.
#pragma once

#include <CLI/App.hpp>
#include <string>
#include <vector>

#include "format/operand.h"

namespace ng::cli {

/// Flags as they were given; empty ones say nothing.
struct FormatFlags {
  std::string format;
  std::string overflow, rounding, scale_rule, block, scale, tensor_scale;
  int64_t sr_bits = 0;

  /// All but --format.
  void declare(CLI::App& app);
  /// Throws Error naming the flag. A format of recipes goes by their rules; an element without
  /// scale is rounded by the format table; unsigned integers are affine unless --scale is none.
  [[nodiscard]] Operand operand() const;
};

/// One format by its name alone; throws Error naming the nearest.
[[nodiscard]] Operand format_named(const std::string& name);

}  // namespace ng::cli
