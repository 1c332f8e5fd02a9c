#include "backend/cpu/gemm/words.h"

#include <algorithm>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backend/cpu/gemm/words.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "backend/cpu/gemm/width-inl.h"

HWY_BEFORE_NAMESPACE();
namespace ng::cpu::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// Where the words of some rows of a panel begin: a run of lanes that divides sixteen.
struct Rows {
  const uint32_t* from = nullptr;
  int64_t stride = 0;  // from the words of one k to the next

  Rows(const PanelSource& source, const PanelPlace& place, int64_t first) {
    static constexpr uint32_t kZeros[16] = {};
    from = kZeros;
    if (place.row + first >= source.rows) return;
    from = static_cast<const uint32_t*>(source.data) +
           interleaved_word(place.row + first, place.k / kWord, source.k / kWord);
    stride = 16;
  }
};

// The words of one sum of such rows: of a segment, or of a part of one.
struct Run {
  const uint32_t* from = nullptr;
  int64_t stride = 0;  // from the words of one k to the next
  int64_t words = 0;
  uint32_t* to = nullptr;
  int64_t width = 0;
};

// Words multiplied by the factors 1, 2, 4 or 8 of their rows.
template <class D>
struct Shift {
  hn::Vec<D> bits, kept;

  Shift(D d, const float* factors) {
    const hn::RebindToFloat<D> df;
    const hn::RebindToSigned<D> di;
    const auto f = hn::BitCast(d, hn::ConvertTo(di, hn::LoadU(df, factors)));
    bits = hn::Sub(hn::ShiftRight<23>(hn::BitCast(d, hn::LoadU(df, factors))), hn::Set(d, 127u));
    // Bits that leave one byte stray into the lowest of the next.
    kept = hn::Not(hn::Mul(hn::Sub(f, hn::Set(d, 1u)), hn::Set(d, 0x01010101u)));
  }
  HWY_INLINE hn::Vec<D> operator()(hn::Vec<D> words) const {
    return hn::And(hn::Shl(words, bits), kept);
  }
};

struct Same {
  template <class V>
  HWY_INLINE V operator()(V words) const {
    return words;
  }
};

template <class D, class Change>
HWY_INLINE void CopyWithBias(D d, const Run& run, uint32_t of_word, const Change& change) {
  const auto bias = hn::Set(d, of_word);
  for (int64_t w = 0; w < run.words; ++w)
    hn::StoreU(hn::Xor(change(hn::LoadU(d, run.from + w * run.stride)), bias), d,
               run.to + w * run.width);
}

constexpr int64_t kMostWords = 128;

// The sums of bytes 0 and 1 and of bytes 2 and 3 of words, in pairs of uint16.
template <class D>
HWY_INLINE hn::Vec<D> PairSums(D d, hn::Vec<D> words) {
#if HWY_TARGET == HWY_SCALAR
  const auto low_bytes = hn::Set(d, 0x00FF00FFu);
  return hn::Add(hn::And(words, low_bytes), hn::And(hn::ShiftRight<8>(words), low_bytes));
#else  // Highway 1.0.3 has no name for it
  const auto ones = hn::Set(d, 0x01010101u);
  if constexpr (hn::MaxLanes(d) == 16) {
    return hn::Vec<D>{_mm512_maddubs_epi16(words.raw, ones.raw)};
  } else {
    return hn::Vec<D>{_mm256_maddubs_epi16(words.raw, ones.raw)};
  }
#endif
}

// Copies at most kMostWords; the sums of values 0 and 1 and of 2 and 3 of them in pairs of uint16,
// with 128 added to every value.
template <class D, class Change>
HWY_INLINE hn::Vec<D> CopyAndSum(D d, const Run& run, const Change& change) {
  const auto bias = hn::Set(d, 0x80808080u);
  auto pairs = hn::Zero(d);
  for (int64_t w = 0; w < run.words; ++w) {
    const auto words = change(hn::LoadU(d, run.from + w * run.stride));
    hn::StoreU(words, d, run.to + w * run.width);
    pairs = hn::Add(pairs, PairSums(d, hn::Xor(words, bias)));
  }
  return pairs;
}

// -128 · the sum of every row, which is copied.
template <class D, class Change>
HWY_INLINE hn::Vec<D> CopyAndStart(D d, const Run& run, const Change& change) {
  auto sum = hn::Zero(d);
  for (int64_t first = 0; first < run.words; first += kMostWords) {
    const Run piece{run.from + first * run.stride, run.stride,
                    std::min(kMostWords, run.words - first), run.to + first * run.width, run.width};
    const auto pairs = CopyAndSum(d, piece, change);
    sum = hn::Add(sum, hn::Add(hn::And(pairs, hn::Set(d, 0xFFFFu)), hn::ShiftRight<16>(pairs)));
  }
  const auto of_bias = hn::Set(d, static_cast<uint32_t>(4 * 128 * run.words));
  return hn::ShiftLeft<7>(hn::Sub(of_bias, sum));
}

// The same of the two halves of at most kMostWords, in pairs of int16.
template <class D, class Change>
HWY_INLINE hn::Vec<D> CopyAndStartHalves(D d, const Run& run, const Change& change) {
  const auto pairs = CopyAndSum(d, run, change);
  const auto low_half = hn::Set(d, 0xFFFFu);
  const auto of_bias = hn::Set(d, static_cast<uint32_t>(2 * 128 * run.words));
  const auto low = hn::ShiftLeft<7>(hn::Sub(of_bias, hn::And(pairs, low_half)));
  const auto high = hn::ShiftLeft<23>(hn::Sub(of_bias, hn::ShiftRight<16>(pairs)));
  return hn::Or(hn::And(low, low_half), high);
}

// The starts of some rows: of their sums, and of groups of segments.
template <class D>
struct Starts {
  D d;
  const PanelSource& source;
  const Panel& panel;
  int64_t width, first;
  hn::Vec<D> of_group = hn::Zero(d);

  HWY_INLINE void Add(int64_t s, hn::Vec<D> start) {
    Store(panel.starts, s, start);
    if (source.use != ScaleUse::groups || source.short_words != 0) return;
    of_group = s % kGroupBlocks == 0 ? start : hn::Add(of_group, start);
    Store(panel.group_starts, s / kGroupBlocks * kGroupBlocks, of_group);
  }
  HWY_INLINE void Store(int32_t* to, int64_t s, hn::Vec<D> start) {
    const hn::RebindToSigned<D> di;
    hn::StoreU(hn::BitCast(di, start), di, to + s * width + first);
  }
};

// Rows first ... of a panel, as many as there are lanes; `words`: of a sum.
template <class D, class ChangeOf>
HWY_INLINE void PackLanes(D d, const PanelSource& source, const PanelPlace& place,
                          const Panel& panel, int64_t first, int64_t words,
                          const ChangeOf& change_of) {
  const int64_t all = place.count / kWord, width = place.width;
  const Rows rows(source, place, first);
  Starts<D> starts{d, source, panel, width, first};
  auto* to = reinterpret_cast<uint32_t*>(panel.elements) + first;
  const auto pack = [&](int64_t s, int64_t count) HWY_ATTR {
    const Run run{rows.from + s * words * rows.stride, rows.stride, count, to + s * words * width,
                  width};
    const auto change = change_of(s * width + first);
    if (panel.starts == nullptr)
      CopyWithBias(d, run, source.biased ? 0x80808080u : 0u, change);
    else if (source.short_words != 0)
      starts.Add(s, CopyAndStartHalves(d, run, change));
    else
      starts.Add(s, CopyAndStart(d, run, change));
  };
  const int64_t whole = all / words;
  for (int64_t s = 0; s < whole; ++s) pack(s, words);
  if (all % words != 0) pack(whole, all % words);
}

// The same with the usual numbers of words as constants.
template <class D, class ChangeOf>
HWY_INLINE void PackLanes(D d, const PanelSource& source, const PanelPlace& place,
                          const Panel& panel, int64_t first, const ChangeOf& change_of) {
  const int64_t words = source.short_words != 0 ? source.short_words : source.segment / kWord;
  if (words == 8) return PackLanes(d, source, place, panel, first, 8, change_of);
  if (words == 4) return PackLanes(d, source, place, panel, first, 4, change_of);
  PackLanes(d, source, place, panel, first, words, change_of);
}

// body(d, first) for the rows of a panel, as many at a time as lanes of d divide sixteen.
template <class Body>
HWY_INLINE void ForLanes(int width, const Body& body) {
  WithLanes<uint32_t>(width, [&](auto d) HWY_ATTR {
    for (int i = 0; i < width; i += static_cast<int>(hn::Lanes(d))) body(d, i);
  });
}

// The shifts of all segments as pairs of int16.
void PackFactors(const PanelSource& source, const PanelPlace& place, const Panel& panel) {
  const hn::CappedTag<float, 4> df;
  const hn::RebindToSigned<decltype(df)> di;
  const hn::RebindToUnsigned<decltype(df)> du;
  const int64_t count = (place.count + source.segment - 1) / source.segment * place.width;
  for (int64_t i = 0; i < count; i += static_cast<int64_t>(hn::Lanes(df))) {
    const auto factor = hn::BitCast(du, hn::ConvertTo(di, hn::LoadU(df, panel.shifts + i)));
    hn::StoreU(hn::Or(factor, hn::ShiftLeft<16>(factor)), du, panel.factors + i);
  }
}

void PackWords(const PanelSource& source, const PanelPlace& place, const Panel& panel) {
  if (panel.factors != nullptr) PackFactors(source, place, panel);
  const bool shifts = source.use == ScaleUse::groups && panel.factors == nullptr;
  ForLanes(place.width, [&](auto d, int first) HWY_ATTR {
    if (shifts)
      PackLanes(d, source, place, panel, first,
                [&](int64_t at) HWY_ATTR { return Shift(d, panel.shifts + at); });
    else
      PackLanes(d, source, place, panel, first, [](int64_t) HWY_ATTR { return Same(); });
  });
}

// The words of some rows as two pairs of int16 each.
template <class D>
HWY_INLINE void SplitWords(D d, const PanelSource& source, const PanelPlace& place, int first,
                           uint32_t* to) {
  const hn::RebindToSigned<D> di;
  const Rows rows(source, place, first);
  const auto low_half = hn::Set(d, 0xFFFFu);
  // Bytes 0 and 1 of words, sign-extended; what is above the lower one's sign goes.
  const auto pair = [&](auto words) HWY_ATTR {
    const auto low = hn::ShiftRight<24>(hn::BitCast(di, hn::ShiftLeft<24>(words)));
    const auto high = hn::ShiftRight<8>(hn::BitCast(di, hn::ShiftLeft<16>(words)));
    return hn::Or(hn::And(hn::BitCast(d, low), low_half),
                  hn::AndNot(low_half, hn::BitCast(d, high)));
  };
  for (int64_t w = 0; w < place.count / kWord; ++w, to += 2 * place.width) {
    const auto words = hn::LoadU(d, rows.from + w * rows.stride);
    hn::StoreU(pair(words), d, to + first);
    hn::StoreU(pair(hn::ShiftRight<16>(words)), d, to + place.width + first);
  }
}

void PackInt16Pairs(const PanelSource& source, const PanelPlace& place, float* elements) {
  auto* to = reinterpret_cast<uint32_t*>(elements);
  ForLanes(place.width,
           [&](auto d, int first) HWY_ATTR { SplitWords(d, source, place, first, to); });
}

// The int8 values of some rows as FP32, times their factors or 1, block after block along K.
template <class D>
HWY_INLINE void Decode(D d, const PanelSource& source, const PanelPlace& place,
                       const float* factors, int first, float* to) {
  const hn::RebindToFloat<D> df;
  const hn::RebindToSigned<D> di;
  const Rows rows(source, place, first);
  const auto unit = hn::Set(df, source.unit);
  const int64_t block = factors != nullptr ? source.block : place.count;
  int64_t end = factors != nullptr ? std::min(block - place.k % block, place.count) : place.count;
  for (int64_t k = 0; k < place.count; end = std::min(end + block, place.count)) {
    const auto factor = factors != nullptr ? hn::LoadU(df, factors + first) : hn::Set(df, 1.0f);
    for (; k < end; ++k, to += place.width) {
      const auto words = hn::BitCast(di, hn::LoadU(d, rows.from + k / kWord * rows.stride));
      const auto raised = hn::ShiftLeftSame(words, static_cast<int>(24 - 8 * (k % kWord)));
      const auto value = hn::Mul(hn::ConvertTo(df, hn::ShiftRight<24>(raised)), unit);
      hn::StoreU(hn::Mul(value, factor), df, to + first);
    }
    if (factors != nullptr) factors += place.width;
  }
}

void PackInterleaved(const PanelSource& source, const PanelPlace& place, const float* factors,
                     float* elements) {
  ForLanes(place.width,
           [&](auto d, int first) HWY_ATTR { Decode(d, source, place, factors, first, elements); });
}

}  // namespace ng::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ng::cpu {
HWY_EXPORT(PackWords);
HWY_EXPORT(PackInt16Pairs);
HWY_EXPORT(PackInterleaved);

void pack_words(const PanelSource& source, const PanelPlace& place, const Panel& panel) {
  HWY_DYNAMIC_DISPATCH(PackWords)(source, place, panel);
}

void pack_int16_pairs(const PanelSource& source, const PanelPlace& place, float* elements) {
  HWY_DYNAMIC_DISPATCH(PackInt16Pairs)(source, place, elements);
}

void pack_interleaved(const PanelSource& source, const PanelPlace& place, const float* factors,
                      float* elements) {
  HWY_DYNAMIC_DISPATCH(PackInterleaved)(source, place, factors, elements);
}

}  // namespace ng::cpu
#endif
