// Rows of codes in the card's memory, packed as format/packing.h says: the first in the lowest
// bits.
#pragma once

#include <cstdint>

#include "backend/cuda/words.h"
#include "base/host_device.h"

namespace ng::cuda {

/// Consecutive rows lie `stride` codes apart; each begins with a byte.
struct CodeRows {
  uint8_t* data = nullptr;
  int64_t stride = 0;
  int bits = 8;

  /// Codes that fill whole bytes: who writes one writes all of them.
  [[nodiscard]] NG_HD int together() const {
    return bits % 8 == 0 ? 1 : bits % 4 == 0 ? 2 : bits % 2 == 0 ? 4 : 8;
  }
  [[nodiscard]] __device__ uint32_t operator()(int64_t row, int64_t col) const {
    const int64_t at = row * stride + col;
    if (bits == 8) return data[at];
    if (bits == 16) return reinterpret_cast<const uint16_t*>(data)[at];
    if (bits == 32) return reinterpret_cast<const uint32_t*>(data)[at];
    const int64_t first = at * bits;
    const int shift = static_cast<int>(first % 8);
    uint32_t word = 0;
    for (int i = 0; i * 8 < shift + bits; ++i)
      word |= static_cast<uint32_t>(data[first / 8 + i]) << (8 * i);
    return (word >> shift) & ((1u << bits) - 1);
  }
  /// `count` codes from (row, col) on, code(i) of each; `col` is a multiple of together().
  template <class Code>
  __device__ void put(int64_t row, int64_t col, int count, const Code& code) const {
    uint8_t* to = data + (row * stride + col) * bits / 8;
    uint64_t word = 0;
    int filled = 0;
    for (int i = 0; i < count; ++i) {
      word |= static_cast<uint64_t>(code(i)) << filled;
      for (filled += bits; filled >= 8; filled -= 8, word >>= 8) *to++ = static_cast<uint8_t>(word);
    }
    if (filled > 0) *to = static_cast<uint8_t>(word);
  }
  /// One code, by whoever writes all of a byte's.
  __device__ void set(int64_t row, int64_t col, uint32_t code) const {
    const int64_t at = row * stride + col;
    if (bits == 8) {
      data[at] = static_cast<uint8_t>(code);
    } else if (bits == 16) {
      reinterpret_cast<uint16_t*>(data)[at] = static_cast<uint16_t>(code);
    } else if (bits == 32) {
      reinterpret_cast<uint32_t*>(data)[at] = code;
    } else {
      const int64_t first = at * bits;
      const int shift = static_cast<int>(first % 8);
      const uint32_t mask = ((1u << bits) - 1) << shift, moved = code << shift;
      for (int i = 0; i * 8 < shift + bits; ++i) {
        uint8_t& byte = data[first / 8 + i];
        byte = static_cast<uint8_t>((byte & ~(mask >> (8 * i))) | ((moved & mask) >> (8 * i)));
      }
    }
  }
};

}  // namespace ng::cuda
