// How the values that share a scale become codes under every rule for that scale, step by step.
// [formats.md §3, §4, §5, §6]
#pragma once

#include <string>
#include <vector>

#include "base/json.h"
#include "format/operand.h"

namespace ng::cli {

/// One value on its way: x, what of it is rounded, its code and what that stands for.
struct BlockElement {
  float x = 0;
  float y = 0;
  uint32_t code = 0;
  float value = 0;
};

/// One scale, and the rules that choose it.
struct BlockWay {
  std::vector<std::string> rules;
  const ElementFormat* element = nullptr;
  std::vector<std::string> steps;  ///< lines that lead to the scale
  Json scale;                      ///< its numbers
  std::string y_formula;           ///< "x / 2^0"
  std::vector<BlockElement> elements;
};

struct BlockSteps {
  std::string name;
  Operand operand;
  size_t padding = 0;              ///< zeros after the given values
  float amax = 0;                  ///< what the scale of the whole tensor or row sees
  std::vector<std::string> steps;  ///< lines before any rule
  std::vector<BlockWay> ways;
};

/// `typed`: values as parse_value reads them, at most one block. `tensor_amax`: of the rest of the
/// tensor; empty: there is no rest. Throws Error naming the flag that is wrong. The operand has a
/// scale.
[[nodiscard]] BlockSteps block_steps(std::string_view name, const std::vector<std::string>& typed,
                                     const std::string& tensor_amax);

/// Packed codes of a way, padding included. [formats.md §3.5]
[[nodiscard]] std::vector<uint8_t> packed_bytes_of(const BlockSteps& steps, const BlockWay& way);

[[nodiscard]] std::string text_of(const BlockSteps& steps);
[[nodiscard]] Json json_of(const BlockSteps& steps);

}  // namespace ng::cli
