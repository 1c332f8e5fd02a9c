// Block, tensor and row scaled operands against the definition, bit for bit.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include "backend/cpu/gemm/gemm.h"
#include "backend/cpu/gemm/job.h"
#include "backend/cpu/packed.h"
#include "backend/ref/gemm.h"
#include "backend/ref/operand.h"
#include "base/isa.h"
#include "format/codec.h"
#include "math/round.h"

namespace ng::cpu {
namespace {

// How the values of an operand are spread.
enum class Data {
  normal,
  uneven,   ///< block amplitudes 2^-20 ... 2^20, some blocks zero: few groups share a scale
  close,    ///< block amplitudes 2^0 ... 2^12: in few rows, groups of either kind
  extreme,  ///< amplitudes over all of FP32's exponents
  broken,   ///< as normal, with a few NaN and infinities
  huge,     ///< scales of 2^60: a block of four products of ±36, later one of eight
  largest,  ///< the largest elements, in one block of each group of four times 8; seed 2: and minus
  small,    ///< scales from 2^-40 down, the same in all rows: products that become subnormal
};

// Seed 1 has the negative factors of the first block.
std::vector<float> huge_values(int64_t rows, int64_t k, uint32_t seed) {
  std::vector<float> values(static_cast<size_t>(rows * k));
  for (int64_t r = 0; r < rows; ++r)
    for (int64_t i = 0; i < k; ++i) {
      if (i < 4) values[static_cast<size_t>(r * k + i)] = seed == 1 ? -0x6p60f : 0x6p60f;
      if (i >= 128 && i < 136) values[static_cast<size_t>(r * k + i)] = 0x6p60f;
    }
  return values;
}

std::vector<float> largest_values(int64_t rows, int64_t k, uint32_t seed) {
  std::vector<float> values(static_cast<size_t>(rows * k));
  for (int64_t i = 0; i < rows * k; ++i) {
    const int64_t block = i % k / 32;
    const float sign = seed == 2 && i / k % 2 == 1 ? -1 : 1;
    values[static_cast<size_t>(i)] = sign * 0x1.FCp2f * (block % 4 == block / 4 % 4 ? 8 : 1);
  }
  return values;
}

std::vector<float> values_of(Data data, int64_t rows, int64_t k, uint32_t seed) {
  if (data == Data::huge) return huge_values(rows, k, seed);
  if (data == Data::largest) return largest_values(rows, k, seed);
  std::mt19937 random(seed);
  std::normal_distribution<float> normal;
  std::vector<float> values(static_cast<size_t>(rows * k));
  int exponent = 0;
  for (size_t i = 0; i < values.size(); ++i) {
    const int range = data == Data::close ? 6 : data == Data::uneven ? 20 : 120;
    if (i % 16 == 0) exponent = static_cast<int>(random() % (2 * range + 1)) - range;
    if (i % 16 == 0 && random() % 5 == 0 && data != Data::close) exponent = -1000;
    values[i] = normal(random);
    if (data == Data::small) exponent = -40 - static_cast<int>(i % static_cast<size_t>(k) / 32);
    if (data != Data::normal && data != Data::broken) values[i] = std::ldexp(values[i], exponent);
    if (data == Data::broken && random() % 97 == 0) values[i] = random() % 2 == 0 ? NAN : INFINITY;
  }
  return values;
}

// One operand prepared by the definition, and the same in the layout of the cpu backend.
struct Both {
  std::vector<float> values;
  std::vector<std::byte> ref_storage, cpu_storage;
  PackedOperand ref, cpu;

  Both(const OperandSpec& spec, std::vector<float> source_values)
      : values(std::move(source_values)) {
    const ConstView source{values.data(), spec.rows, spec.k, spec.k};
    ref_storage.resize(ref::operand_bytes(spec));
    ref = {
        .spec = spec, .source = source, .storage = ref_storage.data(), .bytes = ref_storage.size()};
    ref::prepare(ref, source, {});
    const PackedLayout layout = packed_layout(spec);
    cpu_storage.resize(layout.bytes + 64);
    const auto address = reinterpret_cast<uintptr_t>(cpu_storage.data());
    cpu = {.spec = spec,
           .source = source,
           .storage = cpu_storage.data() + (64 - address % 64),
           .bytes = layout.bytes};
    if (layout.bytes > 0) fill(layout);
  }

  void fill(const PackedLayout& layout) {
    const ref::OperandParts parts = ref::parts_of(ref);
    const int64_t k_padded = ref.spec.k_padded();
    for (int64_t i = 0; i < ref.spec.rows * k_padded; ++i) {
      const float value = parts.elements[i];
      if (layout.form == ElementForm::int8)
        put(layout.elements_at, layout.index(i / k_padded, i % k_padded),
            static_cast<int8_t>(value / layout.unit));
      else if (layout.form == ElementForm::bf16)
        put(layout.elements_at, i, static_cast<uint16_t>(float_bits(value) >> 16));
      else
        put(layout.elements_at, i, value);
    }
    for (int64_t r = 0; r < ref.spec.rows; ++r)
      for (int64_t b = 0; b < layout.blocks; ++b)
        put(layout.scales_at, r * layout.blocks + b,
            parts.scale_rows > 0 ? parts.scale(r, b * layout.block) : 1.0f);
    put(layout.tensor_at, 0, *parts.tensor_scale);
  }

  template <class T>
  void put(size_t at, int64_t index, T value) {
    std::memcpy(cpu.storage + at + static_cast<size_t>(index) * sizeof(T), &value, sizeof(T));
  }
};

Operand tile(std::string_view name, int rows, int cols) {
  Operand cast = operand_of(name);
  cast.block = {.kind = Block::Kind::tile, .rows = rows, .cols = cols};
  return cast;
}

struct Pair {
  std::string name;
  Operand a, b;
};

std::vector<Pair> same_format_pairs() {
  std::vector<Pair> pairs;
  for (const std::string_view name : operand_names())
    pairs.push_back({std::string(name), operand_of(name), operand_of(name)});
  return pairs;
}

std::vector<Pair> other_pairs() {
  const auto of = operand_of;
  return {{"mxfp4 x mxfp4 squares", of("mxfp4"), tile("mxfp4", 32, 32)},
          {"mxfp8_e4m3 x mxfp8_e5m2", of("mxfp8_e4m3"), of("mxfp8_e5m2")},
          {"mxfp8_e5m2 x mxfp4", of("mxfp8_e5m2"), of("mxfp4")},
          {"nvfp4 x nvfp4 squares", of("nvfp4"), tile("nvfp4", 16, 16)},
          {"nvfp4 x mxfp4", of("nvfp4"), of("mxfp4")},
          {"mxfp6_e2m3 x mxfp4", of("mxfp6_e2m3"), of("mxfp4")},
          {"mxfp8_e5m2 x nvfp4", of("mxfp8_e5m2"), of("nvfp4")},
          {"mxfp4 x bf16", of("mxfp4"), of("bf16")},
          {"fp32 x nvfp4", of("fp32"), of("nvfp4")},
          {"fp8_e4m3 x mxfp6_e3m2", of("fp8_e4m3"), of("mxfp6_e3m2")},
          {"fp8 rows of 128 x squares", tile("fp8_e4m3", 1, 128), tile("fp8_e4m3", 128, 128)},
          {"fp8 32 x mxfp4", tile("fp8_e5m2", 1, 64), of("mxfp4")},
          {"fp8_e4m3 x fp8_e5m2", of("fp8_e4m3"), of("fp8_e5m2")},
          {"int8 x bf16", of("int8"), of("bf16")},
          {"int8 x int4", of("int8"), of("int4")},
          {"int8 blocks", tile("int8", 1, 32), tile("int8", 1, 32)},
          {"blocks of 12", tile("fp8_e4m3", 1, 12), tile("fp8_e4m3", 1, 12)},
          {"fp32 x blocks of 12", of("fp32"), tile("fp8_e4m3", 1, 12)}};
}

int64_t multiple_of(const Operand& cast) {
  return cast.block.kind == Block::Kind::tile && !cast.is_unscaled() ? cast.block.cols : 1;
}

struct Shape {
  int64_t m, n, k;
};

bool same(float x, float y) {
  return float_bits(x) == float_bits(y) || (std::isnan(x) && std::isnan(y));
}

OperandSpec spec_of(const Operand& cast, Side side, int64_t rows, int64_t k, int64_t multiple) {
  return {.cast = cast, .side = side, .rows = rows, .k = k, .k_multiple = multiple, .hadamard = {}};
}

void check_values(const Pair& pair, const Shape& shape, std::vector<float> left,
                  std::vector<float> right, GemmOutput out = {}) {
  const int64_t multiple = std::lcm(multiple_of(pair.a), multiple_of(pair.b));
  const Both a(spec_of(pair.a, Side::left, shape.m, shape.k, multiple), std::move(left));
  const Both b(spec_of(pair.b, Side::right, shape.n, shape.k, multiple), std::move(right));
  const std::vector<float> before = values_of(Data::normal, shape.m, shape.n, 3);
  std::vector<float> wanted = before;
  out.y = {wanted.data(), shape.m, shape.n, shape.n};
  ref::gemm(out, a.ref, b.ref);
  for (const Isa isa : supported_isas()) {
    force_isa(isa);
    for (const int threads : {1, 2, 3}) {
      Workspace workspace(Threads{threads});
      std::vector<float> y = before;
      out.y.data = y.data();
      gemm(workspace, out, a.cpu, b.cpu);
      for (size_t i = 0; i < y.size(); ++i)
        ASSERT_TRUE(same(y[i], wanted[i]))
            << pair.name << " on " << name_of(isa) << ", " << shape.m << "x" << shape.n << "x"
            << shape.k << " at " << i << ": " << y[i] << " is not " << wanted[i];
    }
  }
  force_isa("auto");
}

void check(const Pair& pair, const Shape& shape, Data data, const GemmOutput& out = {}) {
  SCOPED_TRACE(fmt::format("data {}", static_cast<int>(data)));
  check_values(pair, shape, values_of(data, shape.m, shape.k, 1),
               values_of(data, shape.n, shape.k, 2), out);
}

constexpr Shape kShapes[] = {{1, 1, 1}, {7, 13, 31}, {13, 97, 257}, {33, 50, 160}};

TEST(GemmBlocks, EveryFormatWithItself) {
  for (const Pair& pair : same_format_pairs())
    for (const Shape& shape : kShapes)
      for (const Data data : {Data::normal, Data::uneven}) check(pair, shape, data);
}

TEST(GemmBlocks, MixedPairs) {
  for (const Pair& pair : other_pairs())
    for (const Shape& shape : kShapes)
      for (const Data data : {Data::normal, Data::uneven}) check(pair, shape, data);
}

TEST(GemmBlocks, ExtremeScalesAndValuesThatAreNotNumbers) {
  std::vector<Pair> pairs = same_format_pairs();
  for (const Pair& pair : other_pairs()) pairs.push_back(pair);
  for (const Pair& pair : pairs)
    for (const Data data : {Data::extreme, Data::broken}) check(pair, {19, 61, 200}, data);
}

// A contribution of 288 · 2^120 is infinite, whatever was summed before.
TEST(GemmBlocks, ContributionsBeyondFp32) {
  for (const char* format : {"mxfp4", "mxfp6_e2m3", "mxfp6_e3m2", "mxfp8_e4m3", "mxfp8_e5m2"})
    check({format, operand_of(format), operand_of(format)}, {9, 50, 256}, Data::huge);
}

TEST(GemmBlocks, ProductsOfScalesThatAreSubnormal) {
  for (const std::string_view name : operand_names())
    check({std::string(name), operand_of(name), operand_of(name)}, {9, 50, 1024}, Data::small);
}

// Operands whose blocks have the scale 2^exponent, made to meet where FP32 has no more bits.
struct Edges {
  const ElementFormat& element;
  int exponent;
  int64_t rows, block;

  // Blocks of the largest sums, each twice the one before where `grows`, with changing signs.
  [[nodiscard]] std::vector<float> largest(bool grows) const {
    return values([&](int64_t b, int64_t) {
      return grows ? std::ldexp(b % 2 == 0 ? 1.0f : -1.0f, static_cast<int>(b)) : 1.0f;
    });
  }
  // The largest element at `place`, none at `empty`, else the smallest; one less in odd blocks.
  [[nodiscard]] std::vector<float> smallest(int64_t place, int64_t empty, bool one_less) const {
    const float least = min_subnormal(element) / max_value(element);
    return values([&](int64_t b, int64_t i) {
      if (i == empty || (one_less && b % 2 == 1 && i == 2)) return 0.0f;
      return i == place ? 1.0f : least;
    });
  }

 private:
  // Four blocks of share(block, index in it) of the largest element.
  template <class Share>
  [[nodiscard]] std::vector<float> values(const Share& share) const {
    std::vector<float> values;
    for (int64_t r = 0; r < rows; ++r)
      for (int64_t i = 0; i < 4 * block; ++i)
        values.push_back(std::ldexp(share(i / block, i % block) * max_value(element), exponent));
    return values;
  }
};

// Where FP32 stops multiplying sums and scales exactly.
TEST(GemmBlocks, LimitsOfPlainScales) {
  for (const char* name : {"mxint8", "e2m3", "e2m1", "e3m2", "e4m3", "e5m2", "e5m6"})
    for (const int block : {16, 32, 256})
      for (const int left : {-60, -58, -57, -56, -55, 40, 42, 43, 44, 45, 46, 48})
        for (const int right : {left - 1, left, left + 1}) {
          Operand cast = operand_of("mxfp8_e4m3");
          cast.element = &element_format(name);
          cast.block.cols = block;
          const Pair pair{fmt::format("{} at 2^{} x 2^{}", name, left, right), cast, cast};
          const Edges a{*cast.element, left, 3, block}, b{*cast.element, right, 5, block};
          const Shape shape{3, 5, 4 * block};
          check_values(pair, shape, a.largest(true), b.largest(false));
          check_values(pair, shape, a.smallest(0, 1, true), b.smallest(1, 0, false));
        }
}

// The scale of these is the code that blocks of zeros have too, in every form that elements take.
TEST(GemmBlocks, BlocksBelowTheSmallestScale) {
  for (const char* name : {"mxint8", "e2m1", "e4m3", "e3m5", "e5m6", "e7m1"}) {
    Operand cast = operand_of("mxfp8_e4m3");
    cast.element = &element_format(name);
    std::vector<float> tiny(2 * 64), ones(3 * 64, 1.0f);
    tiny[20] = 0x1.8p-127f;
    check_values({name, cast, cast}, {2, 3, 64}, tiny, ones);
    check_values({name, cast, cast}, {3, 2, 64}, ones, tiny);
  }
}

Operand unscaled(std::string_view name) {
  Operand cast = operand_of(name);
  cast.scale = ScaleKind::none;
  return cast;
}

// Formats whose values are BF16 patterns: products in pairs along K.
TEST(GemmBlocks, PairsAtOddSizes) {
  const auto of = operand_of;
  const Pair pairs[] = {{"e4m3", of("fp8_e4m3"), of("fp8_e4m3")},
                        {"e5m2", of("fp8_e5m2"), of("fp8_e5m2")},
                        {"e4m3 x e5m2", of("fp8_e4m3"), of("fp8_e5m2")},
                        {"e4m3 x bf16", of("fp8_e4m3"), of("bf16")},
                        {"unscaled", unscaled("fp8_e5m2"), unscaled("fp8_e4m3")},
                        {"mxfp8_e4m3", of("mxfp8_e4m3"), of("mxfp8_e4m3")},
                        {"mxfp8_e5m2 x mxfp8_e4m3", of("mxfp8_e5m2"), of("mxfp8_e4m3")},
                        {"mxfp6_e3m2", of("mxfp6_e3m2"), of("mxfp6_e3m2")},
                        {"fp8 rows of 128", tile("fp8_e4m3", 1, 128), tile("fp8_e5m2", 128, 128)}};
  const int64_t sizes[] = {1, 2, 3, 31, 33, 47, 49, 129};
  for (const Pair& pair : pairs)
    for (size_t i = 0; i < std::size(sizes); ++i)
      for (const Data data : {Data::normal, Data::uneven, Data::extreme, Data::broken})
        for (const Into into : {Into::overwrite, Into::add})
          check(pair, {sizes[i], sizes[(i + 3) % 8], sizes[(i + 6) % 8]}, data,
                {.y = {}, .into = into});
  check(pairs[4], {9, 50, 4201}, Data::uneven, {.y = {}, .into = Into::add});
}

TEST(GemmBlocks, UnitsByFormat) {
  const auto of = [](std::string_view a, std::string_view b) {
    OperandSpec left = spec_of(operand_of(a), Side::left, 16, 128, 32);
    return units_of(left, spec_of(operand_of(b), Side::right, 16, 128, 32));
  };
  for (const Isa isa : supported_isas()) {
    force_isa(isa);
    const Units pairs = isa == Isa::avx512bf16 ? Units::bf16 : Units::fp32;
    EXPECT_EQ(of("fp8_e4m3", "fp8_e5m2"), pairs);
    EXPECT_EQ(of("mxfp8_e4m3", "mxfp8_e4m3"), pairs);
    EXPECT_EQ(of("mxfp6_e3m2", "mxfp6_e3m2"), pairs);
    EXPECT_EQ(of("bf16", "fp8_e4m3"), pairs);
    EXPECT_EQ(of("bf16", "mxfp8_e4m3"), Units::fp32);  // scales rounded into the elements
    EXPECT_EQ(of("fp16", "bf16"), Units::fp32);
    EXPECT_EQ(of("fp32", "fp32"), Units::fp32);
    EXPECT_EQ(of("int8", "int8"), isa == Isa::avx512 ? Units::fp32 : Units::int8);
  }
  force_isa("auto");
}

// Sums wait between blocks of K.
TEST(GemmBlocks, LongReductions) {
  for (const std::string_view name : {"mxfp4", "nvfp4", "fp8_e4m3", "int8"})
    for (const Into into : {Into::overwrite, Into::add})
      check({std::string(name), operand_of(name), operand_of(name)}, {9, 50, 2600}, Data::uneven,
            {.y = {}, .into = into});
}

// Pieces of K begin with whole words, however small the blocks are.
TEST(GemmBlocks, LongReductionsOfSmallBlocks) {
  for (const int block : {1, 2})
    check({"blocks", operand_of("nvfp4"), tile("mxfp4", 1, block)}, {9, 50, 6958}, Data::normal);
}

// Sums of the largest elements, where int16 holds those of a few words: shifted by three bits in
// one block of each group, with equal and with opposite signs.
TEST(GemmBlocks, LargestElementsEverywhere) {
  for (const std::vector<Pair>& pairs : {same_format_pairs(), other_pairs()})
    for (const Pair& pair : pairs)
      for (const int64_t k : {512, 544}) check(pair, {6, 50, k}, Data::largest);
}

TEST(GemmBlocks, GroupsAreSharedOnlyWhereThatIsExact) {
  for (const int rows : {1, 2, 3})
    check({"mxfp4", operand_of("mxfp4"), operand_of("mxfp4")}, {rows, 3, 4096}, Data::close);
}

TEST(GemmBlocks, PrescalesBiasAndRounding) {
  const std::vector<float> bias(61, 0.37f);
  for (const std::string_view name : {"mxfp4", "nvfp4", "int8"}) {
    Pair pair{std::string(name), operand_of(name), operand_of(name)};
    pair.a.prescale = 0.75f;
    pair.b.prescale = 0.9f;
    for (const Into into : {Into::overwrite, Into::add})
      check(pair, {19, 61, 96}, Data::normal,
            {.y = {}, .into = into, .bias = bias.data(), .round = Compute::bf16});
  }
}

// More products than int32 holds, at the largest magnitudes.
TEST(GemmBlocks, IntegersBeyondOneChunk) {
  check({"int8", operand_of("int8"), operand_of("int8")}, {2, 3, 270000}, Data::normal);
}

}  // namespace
}  // namespace ng::cpu
