// A warp's matrix units and what feeds them, of words.h, on the emulated device. The parts of lanes
// are where PTX says they are. [PTX ISA 9.0, mma m16n8k16 and ldmatrix]
#pragma once

#include <array>
#include <cstdint>
#include <cstring>

#include "backend/cuda/card.h"
#include "backend/cuda/emulated/block.h"
#include "math/exp.h"

namespace ng::cuda {

/// Of a card 2^-22 apart; here to the last bit.
inline float exp2_approx(float x) {
  constexpr double kLn2 = 0.6931471805599453;
  return static_cast<float>(math::exp(double{x} * kLn2));
}

namespace emulated {

/// A lane's part of C (16 × 8, FP32) += A (16 × 16) · B (16 × 8) of BF16, in one FP32 chain each.
struct MatrixProduct : WarpWork {
  MatrixProduct(float (&sums)[4], const uint32_t (&rows)[4], uint32_t b0, uint32_t b1)
      : WarpWork{multiply}, c(sums), a(rows), b{b0, b1} {}
  static void multiply(const std::array<WarpWork*, kWarp>& lanes);

  float (&c)[4];
  const uint32_t (&a)[4];
  std::array<uint32_t, 2> b;
};

/// Rows of four matrices of 8 × 8, of which lane i names row i % 8 of matrix i / 8.
struct MatrixRows : WarpWork {
  explicit MatrixRows(int64_t row) : WarpWork{tell}, own(row) {}
  static void tell(const std::array<WarpWork*, kWarp>& lanes);

  int64_t own;
  std::array<int64_t, kWarp> all{};  ///< those of all lanes
};

void meet_for(WarpWork& work, const Place& place);

/// The word of two values, a column pair, of a row that lies in shared memory.
inline uint32_t pair_at(SharedArray& array, int64_t row, int pair) {
  uint32_t word = 0;
  std::memcpy(&word, array.read(row) + sizeof word * static_cast<size_t>(pair), sizeof word);
  return word;
}

}  // namespace emulated

#define NG_PLACE int line = __builtin_LINE(), const char *file = __builtin_FILE()

inline void mma_bf16(float (&c)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1, NG_PLACE) {
  emulated::MatrixProduct product(c, a, b0, b1);
  emulated::meet_for(product, {line, file});
}

inline void ldmatrix(uint32_t (&r)[4], const emulated::SharedPlace<Quad>& row, NG_PLACE) {
  emulated::MatrixRows rows(row.index);
  emulated::meet_for(rows, {line, file});
  const int lane = emulated::running.thread->lane();
  for (int m = 0; m < 4; ++m)
    r[m] = emulated::pair_at(*row.array, rows.all[static_cast<size_t>(8 * m + lane / 4)], lane % 4);
}

inline void ldmatrix_trans(uint32_t (&r)[4], const emulated::SharedPlace<Quad>& row, NG_PLACE) {
  emulated::MatrixRows rows(row.index);
  emulated::meet_for(rows, {line, file});
  const int lane = emulated::running.thread->lane(), col = lane / 4;
  for (int m = 0; m < 4; ++m) {
    const auto first = static_cast<size_t>(8 * m + 2 * (lane % 4));
    const auto value = [&](size_t i) {
      return emulated::pair_at(*row.array, rows.all[i], col / 2) >> 16 * (col % 2) & 0xFFFFu;
    };
    r[m] = value(first) | value(first + 1) << 16;
  }
}

#undef NG_PLACE

}  // namespace ng::cuda
