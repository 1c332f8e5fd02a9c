#include <gtest/gtest.h>

#include "base/amx.h"
#include "base/tile_check.h"

namespace ng {
namespace {

// One chain over all products, as one reads another manual's pseudo-code.
struct OneChain : ScalarTiles {
  template <int kC, int kA, int kB>
  void add_bf16() {
    uint32_t a[kTileRows][kTileWords] = {}, b[kTileRows][kTileWords] = {},
             c[kTileRows][kTileWords] = {};
    store<kA>(a, 64), store<kB>(b, 64), store<kC>(c, 64);
    for (int m = 0; m < kTileRows; ++m)
      for (int n = 0; n < kTileWords; ++n) {
        auto sum = std::bit_cast<float>(c[m][n]);
        for (int k = 0; k < 2 * 8; ++k) {
          const int shift = k % 2 == 0 ? 16 : 0;
          sum = std::fma(std::bit_cast<float>(a[m][k / 2] << shift & 0xFFFF0000u),
                         std::bit_cast<float>(b[k / 2][n] << shift & 0xFFFF0000u), sum);
        }
        c[m][n] = std::bit_cast<uint32_t>(sum);
      }
    load<kC>(c, 64);
  }
};

// One sum of integers too large by one.
struct OffByOne : ScalarTiles {
  template <int kC, int kA, int kB>
  void add_int8() {
    uint32_t c[kTileRows][kTileWords] = {};
    ScalarTiles::add_int8<kC, kA, kB>();
    store<kC>(c, 64);
    ++c[3][5];
    load<kC>(c, 64);
  }
};

TEST(Tiles, ACheckTellsOtherSumsFromTheDefined) {
  ScalarTiles defined;
  EXPECT_TRUE(sums_as_defined(defined));
  OneChain chain;
  EXPECT_FALSE(sums_as_defined(chain));
  OffByOne other;
  EXPECT_FALSE(sums_as_defined(other));
}

TEST(Tiles, SumEvenAndOddApart) {
  ScalarTiles tiles;
  TileForm forms[kTiles];
  forms[1] = {1, 8};
  forms[2] = {2, 4};
  forms[0] = {1, 4};
  tiles.configure(forms);
  // 2^24 · 1 + 1 · 1 of the even, -2^24 · 1 + 1 · 1 of the odd ones: 2^24 + 1 is no FP32 number, so
  // that the even ones lose theirs, and a chain in order would end with 2.
  const uint32_t a[2] = {0xCB804B80u, 0x3F803F80u}, b[2] = {0x3F803F80u, 0x3F803F80u};
  tiles.load<1>(a, 8);
  tiles.load<2>(b, 4);
  tiles.add_bf16<0, 1, 2>();
  float sum = 7;
  tiles.store<0>(&sum, 4);
  EXPECT_EQ(sum, 1);
}

TEST(Tiles, EveryStateHasItsWords) {
  for (const AmxState state :
       {AmxState::absent, AmxState::refused, AmxState::differs, AmxState::works})
    EXPECT_FALSE(text_of(state).empty());
  EXPECT_EQ(amx_state(), amx_state());
}

}  // namespace
}  // namespace ng
