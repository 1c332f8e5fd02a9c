// Kernels on matrix tiles, for ScalarTiles and AmxTiles (base/tiles.h): 32 x 32 outputs are 2 x 2
// tiles, so that each load of a tile serves two products. Include in the places that tile-inl.h is
// included in, for one kind of tiles each.
//
// A left panel lies row by row in pieces along K, [pieces][32 rows][words of a piece], a right one
// word by word, [words][32 columns]. [tile_panels.h]
#pragma once

constexpr int kSide = 2 * kTileRows;

// c are tiles 0 ... 3, row by row; 4 and 5 are of a, 6 and 7 of b.
template <class Tiles>
void configure(Tiles& tiles, int depth) {
  TileForm forms[kTiles];
  forms[4].bytes = forms[5].bytes = static_cast<uint16_t>(4 * depth);
  forms[6].rows = forms[7].rows = static_cast<uint8_t>(depth);
  tiles.configure(forms);
}

template <class Tiles>
void zero_sums(Tiles& tiles) {
  tiles.template zero<0>();
  tiles.template zero<1>();
  tiles.template zero<2>();
  tiles.template zero<3>();
}

template <class Tiles, class T>
void load_sums(Tiles& tiles, const T* from, int64_t stride) {
  const auto bytes = static_cast<int64_t>(sizeof(T)) * stride;
  tiles.template load<0>(from, bytes);
  tiles.template load<1>(from + kTileRows, bytes);
  tiles.template load<2>(from + kTileRows * stride, bytes);
  tiles.template load<3>(from + kTileRows * stride + kTileRows, bytes);
}

template <class Tiles, class T>
void store_sums(Tiles& tiles, T* to, int64_t stride) {
  const auto bytes = static_cast<int64_t>(sizeof(T)) * stride;
  tiles.template store<0>(to, bytes);
  tiles.template store<1>(to + kTileRows, bytes);
  tiles.template store<2>(to + kTileRows * stride, bytes);
  tiles.template store<3>(to + kTileRows * stride + kTileRows, bytes);
}

// The operands of a step: `words` of a's row in a piece, and b's from there on.
template <class Tiles>
void load_factors(Tiles& tiles, const float* a, int64_t words, const float* b) {
  constexpr int64_t kWordBytes = sizeof(float);
  tiles.template load<4>(a, kWordBytes * words);
  tiles.template load<5>(a + kTileRows * words, kWordBytes * words);
  tiles.template load<6>(b, kWordBytes * kSide);
  tiles.template load<7>(b + kTileRows, kWordBytes * kSide);
}

template <class Tiles>
void add_pairs(Tiles& tiles) {
  tiles.template add_bf16<0, 4, 6>();
  tiles.template add_bf16<1, 4, 7>();
  tiles.template add_bf16<2, 5, 6>();
  tiles.template add_bf16<3, 5, 7>();
}

template <class Tiles>
void add_words(Tiles& tiles) {
  tiles.template add_int8<0, 4, 6>();
  tiles.template add_int8<1, 4, 7>();
  tiles.template add_int8<2, 5, 6>();
  tiles.template add_int8<3, 5, 7>();
}

// [Tile32Kernel], of pairs of BF16.
template <class Tiles>
void tile32_pairs(int64_t count, const float* a, const float* b, TileIn from, TileOut to) {
  Tiles tiles;
  configure(tiles, kTileWords);
  if (from.data != nullptr)
    load_sums(tiles, from.data, from.stride);
  else
    zero_sums(tiles);
  for (; count > 0; count -= kTileWords, a += kTileWords * kSide, b += kTileWords * kSide) {
    load_factors(tiles, a, kTileWords, b);
    add_pairs(tiles);
  }
  store_sums(tiles, to.data, to.stride);
  tiles.release();
  for (int i = 0; i < kSide; ++i)  // -0 becomes +0
    for (int j = 0; j < kSide; ++j) to.data[i * to.stride + j] += 0.0f;
}

// Sums of the segments of a run, of words of int8.
template <class Tiles>
class SegmentSums {
 public:
  explicit SegmentSums(const SegmentRun& run) : run_(run) {
    const bool is_deep = run.count % kTileWords == 0 && run.left_words % kTileWords == 0;
    depth_ = is_deep ? kTileWords : kTileWords / 2;
    configure(tiles_, depth_);
  }
  SegmentSums(const SegmentSums&) = delete;
  ~SegmentSums() { tiles_.release(); }

  // Row by row.
  const int32_t* sums(int64_t s) {
    zero_sums(tiles_);
    for (int64_t w = s * run_.count; w < (s + 1) * run_.count; w += depth_) {
      const int64_t piece = w / run_.left_words, inside = w % run_.left_words;
      load_factors(tiles_, run_.a + piece * run_.left_words * kSide + inside, run_.left_words,
                   run_.b + w * kSide);
      add_words(tiles_);
    }
    store_sums(tiles_, sums_, kSide);
    return sums_;
  }

 private:
  Tiles tiles_;
  const SegmentRun& run_;
  int depth_ = 0;
  alignas(64) int32_t sums_[kSide * kSide];
};

// [ScaledKernel]
template <class Tiles>
void add_scaled(const SegmentRun& run, TileIn from, TileOut to) {
  for (int i = 0; i < kSide; ++i)
    for (int j = 0; j < kSide; ++j)
      to.data[i * to.stride + j] = from.data != nullptr ? from.data[i * from.stride + j] : 0.0f;
  SegmentSums<Tiles> segments(run);
  for (int64_t s = 0; s < run.segments; ++s) {
    const int32_t* sums = segments.sums(s);
    const float* left = run.scales.left + s * run.stride * kSide;
    const float* right = run.scales.right + s * run.stride * kSide;
    for (int i = 0; i < kSide; ++i)
      for (int j = 0; j < kSide; ++j) {
        float& acc = to.data[i * to.stride + j];
        acc = std::fma(static_cast<float>(sums[i * kSide + j]), left[i] * right[j], acc);
      }
  }
  for (int i = 0; i < kSide; ++i)
    for (int j = 0; j < kSide; ++j) to.data[i * to.stride + j] *= run.factor;
}

// [DotKernel]
template <class Tiles>
void add_dots(const SegmentRun& run, int32_t* to) {
  SegmentSums<Tiles> segments(run);
  for (int64_t s = 0; s < run.segments; ++s) {
    const int32_t* sums = segments.sums(s);
    for (int i = 0; i < kSide * kSide; ++i)
      to[i] = static_cast<int32_t>(static_cast<uint32_t>(to[i]) + static_cast<uint32_t>(sums[i]));
  }
}
