// The lanes give the same bits on every instruction set, and the tree is the one of recipes.md §0.
#include <gtest/gtest.h>

#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <vector>

#include "base/isa.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backend/cpu/simd/lanes_test.cc"
#include <hwy/foreach_target.h>  // once per instruction set
#include "backend/cpu/simd/kernel-inl.h"

HWY_BEFORE_NAMESPACE();
namespace ng::cpu::HWY_NAMESPACE {

// Every elementwise function on lanes a, b, c; 16 results each.
void AllFunctions(const float* a, const float* b, const float* c, float* out) {
  const F16 x = Load16(a), y = Load16(b), z = Load16(c);
  const F16 results[] = {Add(x, y),
                         Sub(x, y),
                         Mul(x, y),
                         Div(x, y),
                         Fma(x, y, z),
                         Sqrt(x),
                         Abs(x),
                         Neg(x),
                         Min(x, y),
                         Max(x, y),
                         RoundToBf16(x),
                         Select(Lt(x, y), z, x),
                         Select(Le(x, y), z, x),
                         Select(Ne(x, y), z, x),
                         Select(Eq(x, y), z, x),
                         Bits<float>(ShiftRight<3>(Bits<uint32_t>(x))),
                         Bits<float>(ShiftRight<3>(Bits<int32_t>(x))),
                         Bits<float>(ShiftLeft<3>(Bits<uint32_t>(x))),
                         ToFloat(Bits<int32_t>(x)),
                         Bits<float>(AndNot(Bits<uint32_t>(x), Bits<uint32_t>(y)))};
  for (const F16& r : results) Store16(r, out), out += kLanes;
  *out++ = FoldLanes(z);
  *out++ = MaxLane(x);
  *out++ = static_cast<float>(CountTrue(Gt(x, y)));
}

float SumOf(const float* x, int64_t n) {
  return TreeSum(n, [=](int64_t i, auto left) HWY_ATTR { return Load16(x + i, left); });
}

double SumOfAsDouble(const float* x, int64_t n) {
  return TreeSum<double>(n, [=](int64_t i, auto left) HWY_ATTR {
    alignas(64) float buffer[kLanes];
    Store16(Load16(x + i, left), buffer);
    return LoadAsDouble16(buffer);
  });
}

double SumOfBf16AsDouble(const Bf16* x) { return FoldLanes(LoadAsDouble16(x)); }

void CopyPartial(const float* from, float* to, int64_t n) { Store16(Load16(from, n), to, n); }
void WidenPartial(const Bf16* from, float* to, int64_t n) { Store16(Load16(from, n), to, n); }
void NarrowPartial(const float* from, Bf16* to, int64_t n) { Store16(Load16(from, n), to, n); }

}  // namespace ng::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ng::cpu {
namespace {
HWY_EXPORT(AllFunctions);
HWY_EXPORT(SumOf);
HWY_EXPORT(SumOfAsDouble);
HWY_EXPORT(CopyPartial);
HWY_EXPORT(SumOfBf16AsDouble);
HWY_EXPORT(WidenPartial);
HWY_EXPORT(NarrowPartial);

constexpr size_t kResults = 20 * 16 + 3;

class Lanes : public ::testing::Test {
 protected:
  ~Lanes() override { force_isa("auto"); }
};

uint32_t bits_of(float x) { return std::bit_cast<uint32_t>(x); }

// NaN payloads are not promised.
bool same(float a, float b) { return bits_of(a) == bits_of(b) || (std::isnan(a) && std::isnan(b)); }

std::vector<float> interesting() {
  const float inf = std::numeric_limits<float>::infinity();
  std::vector<float> x = {0.0f,          -0.0f,  1.0f,    -1.0f,         inf,         -inf,
                          std::nanf(""), 1e-45f, -1e-40f, 3.4028235e38f, 1.00390625f, 1.01171875f,
                          2.5f,          -7.0f,  1e-38f,  65504.0f};
  std::mt19937 rng(7);
  while (x.size() < 4096) x.push_back(std::bit_cast<float>(static_cast<uint32_t>(rng())));
  return x;
}

TEST_F(Lanes, EveryIsaGivesTheBitsOfScalar) {
  const std::vector<float> x = interesting();
  for (size_t i = 0; i + 16 <= x.size(); ++i) {
    const float* a = &x[i];
    const float* b = &x[(i * 7 + 3) % (x.size() - 16)];
    const float* c = &x[(i * 5 + 1) % (x.size() - 16)];
    std::vector<float> want(kResults), got(kResults);
    force_isa(Isa::scalar);
    HWY_DYNAMIC_DISPATCH(AllFunctions)(a, b, c, want.data());
    for (const Isa isa : supported_isas()) {
      force_isa(isa);
      HWY_DYNAMIC_DISPATCH(AllFunctions)(a, b, c, got.data());
      for (size_t k = 0; k < kResults; ++k)
        ASSERT_TRUE(same(want[k], got[k]))
            << name_of(isa) << " result " << k << ": " << want[k] << " " << got[k];
    }
  }
}

TEST_F(Lanes, AreTheIeeeOperations) {
  const std::vector<float> x = interesting();
  for (const Isa isa : supported_isas()) {
    force_isa(isa);
    for (size_t i = 0; i + 48 <= x.size(); i += 16) {
      std::vector<float> out(kResults);
      HWY_DYNAMIC_DISPATCH(AllFunctions)(&x[i], &x[i + 16], &x[i + 32], out.data());
      for (size_t l = 0; l < 16; ++l) {
        const float a = x[i + l], b = x[i + 16 + l], c = x[i + 32 + l];
        EXPECT_TRUE(same(out[l], a + b));
        EXPECT_TRUE(same(out[48 + l], a / b));
        EXPECT_TRUE(same(out[64 + l], std::fma(a, b, c)));
        EXPECT_TRUE(same(out[80 + l], std::sqrt(a)));
        EXPECT_TRUE(same(out[8 * 16 + l], a < b ? a : b));
        EXPECT_TRUE(same(out[9 * 16 + l], a > b ? a : b));
      }
    }
  }
}

TEST_F(Lanes, Bf16RoundsToNearestEvenAndKeepsNan) {
  const std::vector<float> x = {1.00390625f,  // tie between 1 and 1 + 2^-7: even is 1
                                1.01171875f,  // tie: up to 1 + 2^-6
                                std::nextafter(1.00390625f, 2.0f),
                                3.4028235e38f,
                                std::bit_cast<float>(0x7F800001u),
                                std::bit_cast<float>(0xFFFFFFFFu),
                                -0.0f,
                                1e-45f};
  const std::vector<uint32_t> want = {0x3F800000u, 0x3F820000u, 0x3F810000u, 0x7F800000u,
                                      0x7FC00000u, 0xFFFF0000u, 0x80000000u, 0u};
  std::vector<float> lanes(16);
  std::copy(x.begin(), x.end(), lanes.begin());
  for (const Isa isa : supported_isas()) {
    force_isa(isa);
    std::vector<float> out(kResults);
    HWY_DYNAMIC_DISPATCH(AllFunctions)(lanes.data(), lanes.data(), lanes.data(), out.data());
    for (size_t i = 0; i < x.size(); ++i) EXPECT_EQ(bits_of(out[160 + i]), want[i]) << i;
  }
}

TEST_F(Lanes, Bf16InMemoryIsTheUpperHalf) {
  const std::vector<float> x = interesting();
  for (const Isa isa : supported_isas()) {
    force_isa(isa);
    for (size_t i = 0; i + 16 <= x.size(); i += 16) {
      std::vector<Bf16> narrow(16);
      std::vector<float> wide(16);
      HWY_DYNAMIC_DISPATCH(NarrowPartial)(&x[i], narrow.data(), 16);
      HWY_DYNAMIC_DISPATCH(WidenPartial)(narrow.data(), wide.data(), 16);
      for (size_t l = 0; l < 16; ++l) {
        EXPECT_EQ(narrow[l].bits, to_bf16(x[i + l]).bits) << name_of(isa) << " " << x[i + l];
        EXPECT_EQ(bits_of(wide[l]), uint32_t{narrow[l].bits} << 16);
      }
    }
  }
}

// Vectors without subnormals and zeros too, which a CPU's own conversion may take.
TEST_F(Lanes, Bf16InMemoryIsTheNearestOfEveryBinade) {
  constexpr uint32_t kStep = 16411;
  for (const Isa isa : supported_isas()) {
    force_isa(isa);
    for (uint64_t bits = 0; bits < uint64_t{1} << 32; bits += 16 * kStep) {
      std::array<float, 16> x;
      std::array<Bf16, 16> narrow;
      for (uint64_t l = 0; l < 16; ++l)
        x[l] = std::bit_cast<float>(static_cast<uint32_t>(bits + l * kStep));
      HWY_DYNAMIC_DISPATCH(NarrowPartial)(x.data(), narrow.data(), 16);
      for (size_t l = 0; l < 16; ++l)
        ASSERT_EQ(narrow[l].bits, to_bf16(x[l]).bits) << name_of(isa) << " " << x[l];
    }
  }
}

TEST_F(Lanes, PartialBf16TouchesNothingElse) {
  for (const Isa isa : supported_isas()) {
    force_isa(isa);
    for (int64_t n = 0; n <= 16; ++n) {
      std::vector<Bf16> exact(static_cast<size_t>(n));  // ASan sees overreads
      for (size_t i = 0; i < exact.size(); ++i) exact[i] = to_bf16(static_cast<float>(i + 1));
      std::vector<float> wide(20, -1.0f);
      HWY_DYNAMIC_DISPATCH(WidenPartial)(exact.data(), wide.data(), n);
      std::vector<Bf16> narrow(20, to_bf16(-1.0f));
      HWY_DYNAMIC_DISPATCH(NarrowPartial)(wide.data(), narrow.data(), n);
      for (int64_t i = 0; i < 20; ++i) {
        const float want = i < n ? static_cast<float>(i + 1) : -1.0f;
        EXPECT_EQ(wide[static_cast<size_t>(i)], want) << n;
        EXPECT_EQ(widened(narrow[static_cast<size_t>(i)]), want) << n;
      }
    }
  }
}

TEST_F(Lanes, Bf16BecomesDoubleExactly) {
  std::vector<Bf16> x(16);
  for (size_t i = 0; i < 16; ++i) x[i] = to_bf16(std::ldexp(1.0f, static_cast<int>(3 * i)));
  for (const Isa isa : supported_isas()) {
    force_isa(isa);
    EXPECT_EQ(HWY_DYNAMIC_DISPATCH(SumOfBf16AsDouble)(x.data()), (std::ldexp(1.0, 48) - 1) / 7);
  }
}

TEST_F(Lanes, PartialCopiesTouchNothingElse) {
  std::vector<float> from(16);
  for (size_t i = 0; i < 16; ++i) from[i] = static_cast<float>(i + 1);
  for (const Isa isa : supported_isas()) {
    force_isa(isa);
    for (int64_t n = 0; n <= 16; ++n) {
      const std::vector<float> exact(from.begin(), from.begin() + n);  // ASan sees overreads
      std::vector<float> to(20, -1.0f);
      HWY_DYNAMIC_DISPATCH(CopyPartial)(exact.data(), to.data(), n);
      for (int64_t i = 0; i < 20; ++i)
        EXPECT_EQ(to[static_cast<size_t>(i)], i < n ? static_cast<float>(i + 1) : -1.0f) << n;
    }
  }
}

// The tree written from its definition: lanes, folds, then levels of pairs.
template <class T>
T tree_by_definition(const std::vector<float>& x) {
  std::vector<T> chunks;
  for (size_t begin = 0; begin < x.size(); begin += 4096) {
    T lane[16] = {};
    const size_t end = std::min(x.size(), begin + 4096);
    for (size_t i = begin; i < end; ++i) lane[(i - begin) % 16] += static_cast<T>(x[i]);
    for (int w = 8; w >= 1; w /= 2)
      for (int l = 0; l < w; ++l) lane[l] += lane[l + w];
    chunks.push_back(lane[0]);
  }
  while (chunks.size() > 1) {
    std::vector<T> pairs;
    for (size_t i = 0; i < chunks.size(); i += 2)
      pairs.push_back(i + 1 < chunks.size() ? chunks[i] + chunks[i + 1] : chunks[i]);
    chunks = pairs;
  }
  return chunks.empty() ? T{0} : chunks[0];
}

TEST_F(Lanes, TreeIsTheDefinition) {
  std::mt19937 rng(3);
  std::normal_distribution<float> normal;
  for (const size_t n : {0, 1, 15, 16, 17, 1000, 4095, 4096, 4097, 12289, 20000, 28673, 45057}) {
    std::vector<float> x(n);
    for (float& v : x) v = normal(rng) * std::exp(3 * normal(rng));
    const float want = tree_by_definition<float>(x);
    const double want_double = tree_by_definition<double>(x);
    for (const Isa isa : supported_isas()) {
      force_isa(isa);
      const int64_t count = static_cast<int64_t>(n);
      EXPECT_EQ(bits_of(HWY_DYNAMIC_DISPATCH(SumOf)(x.data(), count)), bits_of(want)) << n;
      EXPECT_EQ(HWY_DYNAMIC_DISPATCH(SumOfAsDouble)(x.data(), count), want_double) << n;
    }
  }
}

}  // namespace
}  // namespace ng::cpu
#endif
