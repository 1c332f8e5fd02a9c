#include "backend/cpu/gemm/tile_panels.h"

#include <algorithm>
#include <bit>

namespace ng::cpu {
namespace {

constexpr int kWidth = 32;          // of a panel
constexpr int64_t kMostWords = 64;  // of a piece that is turned

// [words][kWidth] becomes [kWidth][words].
void turn(float* piece, int64_t words) {
  float copy[kMostWords * kWidth];
  std::copy_n(piece, words * kWidth, copy);
  for (int64_t row = 0; row < kWidth; ++row)
    for (int64_t w = 0; w < words; ++w) piece[row * words + w] = copy[w * kWidth + row];
}

// FP32 values [values][kWidth] as pairs of BF16, which hold them; of subnormals only the sign.
void narrow(const float* from, int64_t values, float* to) {
  const auto bits = [&](int64_t k, int64_t i) {
    return std::bit_cast<uint32_t>(from[k * kWidth + i]);
  };
  for (int64_t k = 0; k < values; k += kPair)
    for (int64_t i = 0; i < kWidth; ++i)
      to[k / kPair * kWidth + i] =
          std::bit_cast<float>(bits(k, i) >> 16 | (bits(k + 1, i) & 0xFFFF0000u));
}

}  // namespace

void pack_tile_panel(const Job& job, Side side, const PanelPlace& place, const Panel& panel) {
  const bool is_left = side == Side::left;
  const PanelSource& source = is_left ? job.a : job.b;
  NG_CHECK(place.width == kWidth && job.left_words <= kMostWords, place.width, job.left_words);
  if (job.units == Units::bf16) {
    float values[kTileDepth * kWidth];
    for (int64_t k = 0; k < place.count; k += kTileDepth) {
      pack_panel(source, {place.row, place.width, place.k + k, kTileDepth},
                 {.elements = values, .shifts = panel.shifts});
      narrow(values, kTileDepth, panel.elements + k / kPair * kWidth);
    }
  } else {
    pack_panel(source, place, panel);
  }
  if (!is_left) return;
  const int64_t words = job.elements(place.count);
  for (int64_t w = 0; w < words; w += job.left_words)
    turn(panel.elements + w * kWidth, std::min(job.left_words, words - w));
}

}  // namespace ng::cpu
