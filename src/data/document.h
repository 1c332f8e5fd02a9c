// A document before it becomes tokens: its text, and which parts of it training shall predict.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace ng {

/// Bytes [first, last) of a text.
struct TextSpan {
  size_t first = 0;
  size_t last = 0;
};

/// A token is a target where its first byte lies in one of `targets`; all others get mask 0.
struct Document {
  std::string text;
  std::vector<TextSpan> targets;  ///< ascending, apart from each other
  bool ends = false;  ///< the tokenizer's end token follows, where it has one; a target too
};

}  // namespace ng
