// Scales that are tried for each block before one is taken: the E8M0 rule `mse` tries two, a list
// of fits as many as it names. [formats.md §3.2, §4.1]
#pragma once

#include <cstdint>

#include "backend/cpu/quantize/job.h"

namespace ng::cpu {

constexpr int64_t kTrialBlocks = 16;  ///< of one vector trial

/// 1 where there is nothing to choose.
[[nodiscard]] int scales_to_try(const QuantizeJob& job);

/// Whether the vector kernel knows the operand: elements, and tiles that a piece holds whole.
[[nodiscard]] bool has_vector_trials(const QuantizeJob& job);

/// Whether the errors are added in another order than the operand's rows have: by the lines of the
/// source, as those of a tile that serves both directions.
[[nodiscard]] bool adds_by_columns(const QuantizeJob& job);

/// Whether what a scale would lose depends on the draws that the values are rounded by.
[[nodiscard]] bool has_drawn_trials(const QuantizeJob& job);

/// Sixteen blocks side by side.
struct SixteenBlocks {
  const float* values = nullptr;  ///< [count][16], as BlockTrial has them
  int64_t stride = kTrialBlocks;
  int64_t count = 0;
  const uint16_t* draws = nullptr;
  int64_t draw_stride = kTrialBlocks;
  const uint32_t* amax = nullptr;  ///< [16]: bits of the largest |x|
  SecondLevels levels{};           ///< [16], where regions have them
};
/// Of each block the scale with the smallest error, the first of equals; blocks that have none to
/// choose, of zeros or, for E8M0, not finite, keep what `decode` and `multiplier` hold.
void choose_scales(const QuantizeJob& job, const SixteenBlocks& blocks, float* decode,
                   float* multiplier);

/// Blocks of the chunk that wait until they are sixteen.
class TrialLanes {
 public:
  TrialLanes(const QuantizeJob& job, const QuantizeScratch& scratch);

  /// The next blocks: `count` side by side from (row, col) of the piece's values on, the chunk's
  /// from `index` on. Returns how many of them were taken.
  int64_t add(const TileValues& values, const PieceDraws& draws, const Piece& tile, int64_t count,
              int64_t index);
  /// Chooses for those that wait.
  void flush();

 private:
  const QuantizeJob& job_;
  const QuantizeScratch& scratch_;
  int64_t index_[kTrialBlocks] = {};
  int64_t lanes_ = 0;
};

struct ScaleChoice {
  float decode = 0;
  float multiplier = 0;
};
/// The same of one block, by the scalar definition; its largest magnitude is `amax`, finite and
/// above 0. `buffer` is that of a piece.
[[nodiscard]] ScaleChoice choose_scale(const QuantizeJob& job, const Piece& block, float amax,
                                       float* buffer);

}  // namespace ng::cpu
