// A tile of one head's rows of q, k, v or dout, and of P or dS, in the forms that products read.
#pragma once

#include <cstdint>

#include "backend/cpu/attention/product.h"

namespace ng::cpu {

/// Rows of one head, of which each form is made when it is first asked for. Pairs of BF16 have the
/// value of the lower index in the upper half. [base/bf16_dot.h]
struct TileMatrix {
  ConstView source{};      ///< (rows, head_dim), up to `edge` rows
  float* rows;             ///< (edge, width) FP32; of queries zeros behind the last
  float* columns;          ///< (width, edge): those turned; null: of keys
  uint32_t* row_pairs;     ///< (edge, pair_width) of columns 2i, 2i + 1; null: no pairs are made
  uint32_t* column_pairs;  ///< (pair_width, edge): those turned; null: of keys
  uint32_t* pair_rows;     ///< (edge / 2, width) of rows 2i, 2i + 1
  /// Of the BF16 patterns of row_pairs or pair_rows without their signs: the smallest but 0, less 1
  /// (uint16 wraps), and the largest.
  uint16_t smallest, largest;
  bool has_rows, has_columns, has_row_pairs, has_column_pairs, has_pair_rows;

  /// Another tile; what was made of the last counts no more.
  void load(const ConstView& rows_of_head) {
    source = rows_of_head;
    smallest = 0xFFFF;
    largest = 0;
    has_rows = has_columns = has_row_pairs = has_column_pairs = has_pair_rows = false;
  }
  [[nodiscard]] bool is_finite() const { return largest < 0x7F80; }
};

/// P or dS of a tile. As pairs: rounded to BF16, and 0 where a query does not see a key.
struct TileWeights {
  float* values;           ///< (keys, edge) FP32; anything where a query does not see a key
  uint32_t* over_keys;     ///< (edge / 2, edge) of keys 2i, 2i + 1; null: no pairs are made
  uint32_t* over_queries;  ///< (edge, edge / 2) of queries 2i, 2i + 1
};

/// Words of a row of TileMatrix::row_pairs: a multiple of 16, zeros behind head_dim.
inline int64_t pair_width(const AttentionTiles& tiles) { return (tiles.width / 2 + 15) / 16 * 16; }

/// Takes tiles and their pairs, where those are made, from a worker's scratch.
class TakeTiles {
 public:
  TakeTiles(const AttentionTiles& tiles, bool pairs, TileScratch& scratch)
      : tiles_(tiles), pairs_(pairs), scratch_(scratch) {}

  [[nodiscard]] float* matrix() { return scratch_.take(tiles_.edge * tiles_.width); }
  [[nodiscard]] float* line() { return scratch_.take(tiles_.edge); }
  [[nodiscard]] TileMatrix keys() {
    TileMatrix x{};
    x.rows = matrix();
    x.row_pairs = words(tiles_.edge * pair_width(tiles_));
    x.pair_rows = words(tiles_.edge / 2 * tiles_.width);
    return x;
  }
  [[nodiscard]] TileMatrix queries() {
    TileMatrix x = keys();
    x.columns = matrix();
    x.column_pairs = words(tiles_.edge * pair_width(tiles_));
    return x;
  }
  [[nodiscard]] TileWeights weights() {
    const int64_t pairs = tiles_.edge / 2 * tiles_.edge;
    return {scratch_.take(tiles_.edge * tiles_.edge), words(pairs), words(pairs)};
  }

 private:
  [[nodiscard]] uint32_t* words(int64_t count) {
    return pairs_ ? reinterpret_cast<uint32_t*>(scratch_.take(count)) : nullptr;
  }

  AttentionTiles tiles_;
  bool pairs_;
  TileScratch& scratch_;
};

}  // namespace ng::cpu
