// Noisy weights in formats of their bit-widths, and what a cast made of values. The bits of `ref`.
// [source 002, Table C.1]
#include <cmath>

#include "backend/cuda/kernels/noise.h"
#include "format/learned_formats.h"

namespace ng::cuda {
namespace {

constexpr int kFormats = 5;

/// A format of Table C.1 as a block is rounded to it. [format/block_cast.h]
struct BlockFormat {
  ElementCast cast;
  ElementRange range;
  bool has_scale = false;  ///< a power of two, by which nothing saturates
  float most_bits = 0;     ///< up to which b_t it is the one
};

struct BlockFormats {
  BlockFormat rows[kFormats];
};

/// The largest b_t of which the table's row is `i` at most: rows follow b_t.
float most_bits_of(size_t i) {
  const LearnedFormat* first = learned_formats().data();
  const auto is_taken = [&](uint32_t bits) {
    return &format_for_bits(double{float_of_bits(bits)}) <= first + i;
  };
  uint32_t low = 0, high = float_bits(kFloatMax);
  if (is_taken(high)) return kFloatMax;
  while (high - low > 1) {
    const uint32_t middle = low + (high - low) / 2;
    (is_taken(middle) ? low : high) = middle;
  }
  return float_of_bits(low);
}

BlockFormats block_formats() {
  constexpr int kBitsOfFp32Exponent = 8;
  BlockFormats formats;
  const auto all = learned_formats();
  NG_CHECK(all.size() == kFormats, all.size());
  for (size_t i = 0; i < kFormats; ++i) {
    Operand cast;
    cast.element = all[i].cast.element;
    formats.rows[i] = {element_cast(cast, {}), range_of(*cast.element),
                       cast.element->exponent_bits != kBitsOfFp32Exponent, most_bits_of(i)};
  }
  return formats;
}

/// A block by a warp.
struct RoundBlocks {
  CardNoise of;
  Source x;
  Target y;
  BlockFormats formats;
  __device__ void operator()(int64_t unit, int lane) const {
    const int64_t i = unit / of.across(), j = unit % of.across();
    const int64_t row0 = i * of.height, col0 = j * of.width;
    const int64_t rows = of.rows - row0 < of.height ? of.rows - row0 : of.height;
    const int64_t cols = of.cols - col0 < of.width ? of.cols - col0 : of.width;
    uint32_t largest = 0;
    for (int64_t n = lane; n < rows * cols; n += kWarp) {
      const uint32_t bits = float_bits(x(row0 + n / cols, col0 + n % cols)) & 0x7FFFFFFFu;
      largest = bits > largest ? bits : largest;
    }
    const float amax = float_of_bits(largest_bits_of_warp(largest)), b_t = of.bits(i, j);
    const bool is_finite =
        float_bits(amax) < kFloatInf && (float_bits(b_t) & 0x7FFFFFFFu) < kFloatInf;
    int taken = 0;
    while (taken < kFormats - 1 && b_t > formats.rows[taken].most_bits) ++taken;
    const BlockFormat& format = formats.rows[taken];
    const bool is_scaled = format.has_scale && amax > 0;
    const uint32_t code =
        is_scaled && is_finite ? e8m0_code(e8m0_exponent(ScaleRule::rceil, amax, format.range)) : 0;
    const float scale = is_scaled ? e8m0_value(code) : 1.0f;
    const float multiplier = is_scaled ? e8m0_multiplier(code) : 1.0f;
    for (int64_t n = lane; n < rows * cols; n += kWarp) {
      const int64_t row = row0 + n / cols, col = col0 + n % cols;
      const float value = x(row, col);
      const uint32_t made = encode_element(format.cast, value * multiplier, {});
      y.put(row, col, is_finite ? decode_element(format.cast, made) * scale : value);
    }
  }
};

struct CountCastEach {
  Source x;
  StoredSource y;
  float most;
  OperandStats* stats;
  __device__ void operator()(int64_t row, int64_t col) const {
    const float before = x(row, col), after = y(row, col);
    if (row == 0 && col == 0) count_values(stats, x.rows * x.cols);
    if (std::fabs(before) > most * y.scale_of(row, col)) count_one(&stats->saturated);
    if (before != 0 && after == 0) count_one(&stats->flushed);
    if (after != round_to_bf16(before)) count_one(&stats->narrowed);
  }
};

}  // namespace

void perform(Stream stream, const RoundByBits& op) {
  NG_CHECK(same_shape(op.x, op.y), op.x.rows, op.x.cols, op.y.rows, op.y.cols);
  op.of.check_shapes();
  const CardNoise of = card_noise(stream, op.of);
  for_each_row(stream, of.down() * of.across(),
               RoundBlocks{of, source_of(RoundByBits::kName, op.x),
                           target_of(RoundByBits::kName, op.y), block_formats()});
}

void perform(Stream stream, const CountCast& op) {
  NG_CHECK(same_shape(op.x, op.y), op.x.rows, op.x.cols, op.y.rows, op.y.cols);
  for_each_place(stream, op.x.rows, op.x.cols,
                 CountCastEach{source_of(CountCast::kName, op.x), stored_source(op.y),
                               range_of(*op.y.element).max, op.stats});
}

}  // namespace ng::cuda
