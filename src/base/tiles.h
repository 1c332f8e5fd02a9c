// Operations on matrix tiles, as AMX has them: a template parameter of kernels. ScalarTiles is
// their definition and runs everywhere, AmxTiles are the instructions. [Intel SDM, volume 2:
// TDPBF16PS, TDPBSSD]
//
// A tile has up to 16 rows of 64 bytes. A product adds to c (16 × 16 sums of 4 bytes) those of a,
// whose rows hold `depth` words of four bytes along K, and b, whose rows are as many words of K,
// those of 16 columns side by side.
#pragma once

#include <bit>
#include <cstdint>
#include <cstring>

#include "base/flush.h"

namespace ng {

constexpr int kTiles = 8;
constexpr int kTileRows = 16;
constexpr int kTileWords = 16;  // in a row

struct TileForm {
  uint8_t rows = kTileRows;
  uint16_t bytes = 4 * kTileWords;  // of a row
};

/// The definition.
class ScalarTiles {
 public:
  /// Forms of the tiles; all become zeros.
  void configure(const TileForm (&forms)[kTiles]) {
    for (int i = 0; i < kTiles; ++i) tiles_[i] = {.form = forms[i]};
  }
  void release() {}

  template <int kTile>
  void zero() {
    std::memset(tiles_[kTile].row, 0, sizeof tiles_[kTile].row);
  }
  /// Rows that lie `stride` bytes apart.
  template <int kTile>
  void load(const void* from, int64_t stride) {
    zero<kTile>();
    for (int r = 0; r < tiles_[kTile].form.rows; ++r)
      std::memcpy(tiles_[kTile].row[r], static_cast<const std::byte*>(from) + r * stride,
                  tiles_[kTile].form.bytes);
  }
  template <int kTile>
  void store(void* to, int64_t stride) const {
    for (int r = 0; r < tiles_[kTile].form.rows; ++r)
      std::memcpy(static_cast<std::byte*>(to) + r * stride, tiles_[kTile].row[r],
                  tiles_[kTile].form.bytes);
  }

  /// c += a · b, words of four int8, modulo 2^32.
  template <int kC, int kA, int kB>
  void add_int8() {
    each_word<kC, kA, kB>([](uint32_t sum, uint32_t a, uint32_t b) {
      for (int shift = 0; shift < 32; shift += 8)
        sum += static_cast<uint32_t>(static_cast<int8_t>(a >> shift) *
                                     static_cast<int8_t>(b >> shift));
      return sum;
    });
  }

  /// c += a · b, pairs of BF16, as SumOrder::tile32 defines it. [backend/ref/gemm.h]
  template <int kC, int kA, int kB>
  void add_bf16() {
    for (int m = 0; m < tiles_[kC].form.rows; ++m)
      for (int n = 0; n < tiles_[kC].form.bytes / 4; ++n) {
        float low = 0, high = 0;
        for (int k = 0; k < tiles_[kA].form.bytes / 4; ++k) {
          const uint32_t a = tiles_[kA].row[m][k], b = tiles_[kB].row[k][n];
          low = flushed_fma(flushed(float_of(a << 16)), flushed(float_of(b << 16)), low);
          high = flushed_fma(flushed(float_of(a & kHigh)), flushed(float_of(b & kHigh)), high);
        }
        uint32_t& c = tiles_[kC].row[m][n];
        c = std::bit_cast<uint32_t>(flushed(flushed(float_of(c)) + flushed(low + high)));
      }
  }

 private:
  static constexpr uint32_t kHigh = 0xFFFF0000u;
  struct Tile {
    TileForm form{};
    alignas(64) uint32_t row[kTileRows][kTileWords] = {};
  };

  static float float_of(uint32_t bits) { return std::bit_cast<float>(bits); }

  // c = add(c, word of a, word of b) for each along K.
  template <int kC, int kA, int kB, class Add>
  void each_word(const Add& add) {
    for (int m = 0; m < tiles_[kC].form.rows; ++m)
      for (int k = 0; k < tiles_[kA].form.bytes / 4; ++k)
        for (int n = 0; n < tiles_[kC].form.bytes / 4; ++n)
          tiles_[kC].row[m][n] =
              add(tiles_[kC].row[m][n], tiles_[kA].row[m][k], tiles_[kB].row[k][n]);
  }

  Tile tiles_[kTiles];
};

/// The instructions, on a thread of a process that has AMX's permission (amx.h). In assembly: the
/// intrinsics take no template parameters in GCC 12. The registers are the thread's: one at a time.
class AmxTiles {
 public:
  static void configure(const TileForm (&forms)[kTiles]) {
    struct alignas(64) {
      uint8_t palette = 1, start_row = 0, reserved[14] = {};
      uint16_t bytes[16] = {};
      uint8_t rows[16] = {};
    } config;
    for (int i = 0; i < kTiles; ++i)
      config.bytes[i] = forms[i].bytes, config.rows[i] = forms[i].rows;
    __asm__ volatile("ldtilecfg %0" ::"m"(config));
  }
  /// The system need no longer keep them when threads take turns.
  static void release() { __asm__ volatile("tilerelease"); }

  template <int kTile>
  static void zero() {
    __asm__ volatile("tilezero %%tmm%c0" ::"i"(kTile));
  }
  template <int kTile>
  static void load(const void* from, int64_t stride) {
    __asm__ volatile("tileloadd (%1,%2), %%tmm%c0" ::"i"(kTile), "r"(from), "r"(stride) : "memory");
  }
  template <int kTile>
  static void store(void* to, int64_t stride) {
    __asm__ volatile("tilestored %%tmm%c0, (%1,%2)" ::"i"(kTile), "r"(to), "r"(stride) : "memory");
  }
  template <int kC, int kA, int kB>
  static void add_int8() {
    __asm__ volatile("tdpbssd %%tmm%c2, %%tmm%c1, %%tmm%c0" ::"i"(kC), "i"(kA), "i"(kB));
  }
  template <int kC, int kA, int kB>
  static void add_bf16() {
    __asm__ volatile("tdpbf16ps %%tmm%c2, %%tmm%c1, %%tmm%c0" ::"i"(kC), "i"(kA), "i"(kB));
  }
};

}  // namespace ng
