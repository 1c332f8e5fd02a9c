// Which part of a text is kept from training, to validate on.
#pragma once

#include <cstdint>
#include <vector>

#include "data/text_pieces.h"

namespace ng {

enum class ValidationSplit : uint8_t {
  spread,  ///< blocks from everywhere in the text
  tail     ///< its end
};

struct SplitText {
  std::vector<TextPiece> train, validation;
};

/// A share in [0, 1) of the source's tokens, rounded down, to validate on, and what is left.
///
/// Spread: the text is cut into n equal parts, and from each the same number of tokens is taken, at
/// a place that is drawn by the number of the part alone (draw_place() of seed 0): all runs on a
/// text, whatever their seeds, validate on the same blocks. There are so many parts that a block
/// has about 4,096 tokens, at most 256 and, of little text, 8. A block begins and ends with
/// documents where one begins within an eighth of its length, at most 4,096 tokens; where the
/// source keeps_document_whole() none is cut, and what is too much in one block is left out of the
/// next. Of a single such document the end is taken.
[[nodiscard]] SplitText split_text(const TokenSource& source, double share, ValidationSplit split);

/// No more than about so many tokens of the pieces, the beginning of each alike; 0: all of them.
[[nodiscard]] std::vector<TextPiece> shortened(std::vector<TextPiece> pieces, int64_t tokens);

/// Of `items`, those `count` of them that a spread validation takes: one of each of `count` equal
/// parts, drawn as above; ascending.
[[nodiscard]] std::vector<int64_t> spread_items(int64_t items, int64_t count);

}  // namespace ng
