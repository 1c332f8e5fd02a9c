#include "backend/cpu/gemm/gemm.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "base/isa.h"
#include "format/codec.h"
#include "math/round.h"

namespace ng::cpu {
namespace {

// How values are spread: normal · 2^e, e in [low, low + range); one in `zero_of` is +0 or -0.
struct Spread {
  int low = 0, range = 1;
  uint32_t zero_of = ~0u;
};

// Values of a matrix with unused space around the rows, at an address no vector divides.
struct Matrix {
  std::vector<float> memory;
  ConstView view;
  View out;

  Matrix(int64_t rows, int64_t cols, int64_t gap, uint32_t seed, const Spread& spread) {
    memory.resize(static_cast<size_t>(rows * (cols + gap) + 1), 12345.0f);
    std::mt19937 random(seed);
    std::normal_distribution<float> normal;
    out = {memory.data() + 1, rows, cols, cols + gap};
    for (int64_t r = 0; r < rows; ++r)
      for (int64_t c = 0; c < cols; ++c) {
        const float value = normal(random);
        const int exponent = spread.low + static_cast<int>(random() % uint32_t(spread.range));
        const bool is_zero = random() % spread.zero_of == 0;
        out.row(r)[c] = is_zero ? std::copysign(0.0f, value) : std::ldexp(value, exponent);
      }
    view = out;
  }
  Matrix(const Matrix&) = delete;
};

// A plain cast to `format`; memory is (k, rows) where `contract` is rows.
PackedOperand in_place(const Matrix& matrix, std::string_view format, Contract contract) {
  PackedOperand packed;
  const bool cols = contract == Contract::cols;
  packed.spec.cast = operand_of(format);
  packed.spec.contract = contract;
  packed.spec.rows = cols ? matrix.view.rows : matrix.view.cols;
  packed.spec.k = cols ? matrix.view.cols : matrix.view.rows;
  packed.source = matrix.view;
  return packed;
}

float rounded(const ElementFormat& format, float x) {
  if (format.bits == 32) return x;
  if (format.exponent_bits == 8) return round_to_bf16(x);
  return decode(format, encode(format, x, {}, OverflowRule::special));
}

// What the operand holds: (rows, k), row-major.
std::vector<float> values_of(const PackedOperand& operand) {
  const OperandSpec& spec = operand.spec;
  std::vector<float> values;
  for (int64_t row = 0; row < spec.rows; ++row)
    for (int64_t k = 0; k < spec.k; ++k)
      values.push_back(rounded(*spec.cast.element, spec.contract == Contract::cols
                                                       ? operand.source.row(row)[k]
                                                       : operand.source.row(k)[row]));
  return values;
}

struct Case {
  int64_t m, n, k;
  Contract a = Contract::cols, b = Contract::cols;
  std::string_view a_format = "fp32", b_format = "fp32";
  Into into = Into::overwrite;
  bool bias = false;
  Compute round = Compute::fp32;
  Spread a_values{}, b_values{}, y_values{};
};

std::string describe(const Case& c) {
  return fmt::format("{}x{}x{} a {} {} 2^{} b {} {} 2^{} into {} 2^{} bias {} round {}", c.m, c.n,
                     c.k, c.a_format, int(c.a), c.a_values.low, c.b_format, int(c.b),
                     c.b_values.low, int(c.into), c.y_values.low, c.bias, int(c.round));
}

// The definition, one output at a time. [backend/ref/gemm.h]
float expected(const Case& c, const float* a, const float* b, float y, float bias) {
  float acc = c.into == Into::carry ? y : 0.0f;
  for (int64_t k = 0; k < c.k; ++k) acc = std::fma(a[k], b[k], acc);
  if (c.bias) acc += bias;
  if (c.into == Into::add) acc += y;
  return c.round == Compute::bf16 ? round_to_bf16(acc) : acc;
}

// One case with its operands and what comes of them.
class Problem {
 public:
  explicit Problem(const Case& which)
      : c_(which),
        a_values_(source(which.a, which.m, 1, which.a_values)),
        b_values_(source(which.b, which.n, 2, which.b_values)),
        bias_(1, which.n, 0, 4, {}),
        wanted_(which.m, which.n, 7, 3, which.y_values) {
    const std::vector<float> a = values_of(left()), b = values_of(right());
    for (int64_t i = 0; i < c_.m; ++i)
      for (int64_t j = 0; j < c_.n; ++j) {
        float& y = wanted_.out.row(i)[j];
        y = expected(c_, a.data() + i * c_.k, b.data() + j * c_.k, y, bias_.view.data[j]);
      }
  }

  // Every output on one workspace, and that nothing outside y changes.
  void check(Workspace& workspace) const {
    Matrix y(c_.m, c_.n, 7, 3, c_.y_values);
    gemm(workspace,
         {.y = y.out,
          .into = c_.into,
          .bias = c_.bias ? bias_.view.data : nullptr,
          .round = c_.round},
         left(), right());
    for (size_t i = 0; i < y.memory.size(); ++i)
      ASSERT_EQ(float_bits(y.memory[i]), float_bits(wanted_.memory[i]))
          << describe(c_) << " at " << i;
  }

 private:
  [[nodiscard]] Matrix source(Contract contract, int64_t rows, uint32_t seed,
                              const Spread& spread) const {
    return contract == Contract::cols ? Matrix(rows, c_.k, 3, seed, spread)
                                      : Matrix(c_.k, rows, 5, seed, spread);
  }
  [[nodiscard]] PackedOperand left() const { return in_place(a_values_, c_.a_format, c_.a); }
  [[nodiscard]] PackedOperand right() const { return in_place(b_values_, c_.b_format, c_.b); }

  Case c_;
  Matrix a_values_, b_values_, bias_, wanted_;
};

// Runs `cases` on every instruction set and 1, 2 and 3 threads.
void check_everywhere(std::span<const Case> cases) {
  const std::vector<Problem> problems(cases.begin(), cases.end());
  for (const Isa isa : supported_isas()) {
    force_isa(isa);
    SCOPED_TRACE(name_of(isa));
    for (const int threads : {1, 2, 3}) {
      Workspace workspace(Threads{threads});
      for (const Problem& problem : problems) {
        problem.check(workspace);
        if (::testing::Test::HasFatalFailure()) return;
      }
    }
  }
  force_isa("auto");
}

TEST(Gemm, EveryOutputIsOneFmaChainAtOddSizes) {
  std::vector<Case> cases;
  const int64_t sizes[] = {1, 7, 13, 31, 33, 97, 257};
  std::mt19937 random(5);
  const auto size = [&] { return sizes[random() % std::size(sizes)]; };
  for (int i = 0; i < 24; ++i) {
    const Contract a = random() % 2 == 0 ? Contract::cols : Contract::rows;
    const Contract b = random() % 2 == 0 ? Contract::cols : Contract::rows;
    cases.push_back({.m = size(), .n = size(), .k = size(), .a = a, .b = b});
  }
  check_everywhere(cases);
}

TEST(Gemm, EmptyAndShortReductions) {
  std::vector<Case> cases;
  for (const int64_t k : {0, 1, 2})
    for (const Into into : {Into::overwrite, Into::add, Into::carry})
      for (const Contract contract : {Contract::cols, Contract::rows})
        cases.push_back({.m = 9, .n = 50, .k = k, .a = contract, .b = contract, .into = into});
  cases.push_back({.m = 0, .n = 5, .k = 3});
  cases.push_back({.m = 5, .n = 0, .k = 3});
  check_everywhere(cases);
}

// Reductions longer than a block and a superblock, where sums wait in y or in scratch.
TEST(Gemm, LongReductionsCarryTheChain) {
  std::vector<Case> cases;
  for (const Into into : {Into::overwrite, Into::add, Into::carry})
    for (const int64_t k : {1025, 2100, 5001})
      cases.push_back({.m = 17,
                       .n = 61,
                       .k = k,
                       .into = into,
                       .bias = k == 2100,
                       .round = k == 1025 ? Compute::bf16 : Compute::fp32});
  check_everywhere(cases);
}

TEST(Gemm, BiasAndRoundingComeAfterTheSum) {
  std::vector<Case> cases;
  for (const Into into : {Into::overwrite, Into::add, Into::carry})
    for (const bool bias : {false, true})
      for (const Compute round : {Compute::fp32, Compute::bf16})
        cases.push_back({.m = 20, .n = 53, .k = 70, .into = into, .bias = bias, .round = round});
  check_everywhere(cases);
}

TEST(Gemm, UnscaledOperandsAreRoundedWhilePacking) {
  std::vector<Case> cases;
  for (const std::string_view a : {"fp32", "bf16", "fp16"})
    for (const std::string_view b : {"fp32", "bf16", "fp16"})
      for (const Contract contract : {Contract::cols, Contract::rows})
        cases.push_back({.m = 19,
                         .n = 49,
                         .k = 41,
                         .a = contract,
                         .b = contract,
                         .a_format = a,
                         .b_format = b});
  check_everywhere(cases);
}

// Every way into panels of pairs, and the last value of an odd number.
TEST(Gemm, Bf16AtOddSizes) {
  std::vector<Case> cases;
  const int64_t sizes[] = {1, 2, 3, 31, 33, 47, 49, 129};
  std::mt19937 random(6);
  for (const int64_t k : sizes)
    for (const Contract a : {Contract::cols, Contract::rows})
      for (const Contract b : {Contract::cols, Contract::rows})
        for (const Into into : {Into::overwrite, Into::add, Into::carry})
          cases.push_back({.m = sizes[random() % std::size(sizes)],
                           .n = sizes[random() % std::size(sizes)],
                           .k = k,
                           .a = a,
                           .b = b,
                           .a_format = "bf16",
                           .b_format = "bf16",
                           .into = into});
  for (const Into into : {Into::overwrite, Into::add, Into::carry})
    cases.push_back(
        {.m = 17, .n = 61, .k = 5001, .a_format = "bf16", .b_format = "bf16", .into = into});
  check_everywhere(cases);
}

// Subnormal values, products and sums in some tiles or in all, which dot products of BF16 lose.
TEST(Gemm, Bf16WhereSubnormalsAre) {
  std::vector<Case> cases;
  const Spread one{}, some{.low = -140, .range = 140}, tiny{.low = -132, .range = 8};
  const Spread half{.low = -66, .range = 6}, large{.low = 90, .range = 30};
  const std::pair<Spread, Spread> pairs[] = {{one, tiny}, {tiny, large},  {half, half}, {some, one},
                                             {one, some}, {large, large}, {half, large}};
  const auto add = [&](const Spread& a, const Spread& b, const Spread& y, int64_t k) {
    for (const Into into : {Into::overwrite, Into::add, Into::carry})
      cases.push_back({.m = 17,
                       .n = 61,
                       .k = k,
                       .a_format = "bf16",
                       .b_format = "bf16",
                       .into = into,
                       .a_values = a,
                       .b_values = b,
                       .y_values = y});
  };
  for (const auto& [a, b] : pairs)
    for (const Spread& y : {one, tiny, Spread{.low = -110, .range = 12}}) add(a, b, y, 131);
  for (const auto& [a, b] : {pairs[0], pairs[3], pairs[4]}) add(a, b, tiny, 2100);
  check_everywhere(cases);
}

// 144 · 144 - 143 · 145 = 1: the smallest normal sum, and the largest that is not; both also on top
// of a subnormal one.
TEST(Gemm, Bf16AtTheEdgeOfSubnormals) {
  Workspace workspace(Threads{1});
  Matrix a(1, 2, 0, 1, {}), b(1, 2, 0, 2, {}), y(1, 1, 0, 3, {});
  a.out.data[0] = std::ldexp(144.0f, -63);
  a.out.data[1] = std::ldexp(-143.0f, -63);
  for (const Isa isa : supported_isas())
    for (const int e : {-63, -64})
      for (const float start : {0.0f, 0x1p-130f}) {
        force_isa(isa);
        b.out.data[0] = std::ldexp(144.0f, e);
        b.out.data[1] = std::ldexp(145.0f, e);
        y.out.data[0] = start;
        gemm(workspace, {.y = y.out, .into = Into::carry}, in_place(a, "bf16", Contract::cols),
             in_place(b, "bf16", Contract::cols));
        EXPECT_EQ(y.out.data[0], std::ldexp(1.0f, e - 63) + start) << name_of(isa);
      }
  force_isa("auto");
}

// A sum that starts at -0 stays there while all products are -0.
TEST(Gemm, Bf16ZerosKeepTheirSigns) {
  std::vector<Case> cases;
  const Spread zeros{.zero_of = 1}, half{.zero_of = 2};
  for (const int64_t k : {1, 2, 3, 4, 5})
    for (const Into into : {Into::overwrite, Into::add, Into::carry})
      for (const Spread& a : {zeros, half})
        cases.push_back({.m = 9,
                         .n = 50,
                         .k = k,
                         .a_format = "bf16",
                         .b_format = "bf16",
                         .into = into,
                         .a_values = a,
                         .b_values = half,
                         .y_values = zeros});
  check_everywhere(cases);
}

// More rows and columns than one chunk holds, so that left panels are packed in pieces.
TEST(Gemm, ManyChunks) {
  const Case cases[] = {{.m = 1100, .n = 49, .k = 2050, .into = Into::add},
                        {.m = 2100, .n = 13, .k = 1030, .a = Contract::rows},
                        {.m = 2100,
                         .n = 13,
                         .k = 4101,
                         .a = Contract::rows,
                         .a_format = "bf16",
                         .b_format = "bf16",
                         .into = Into::add}};
  force_isa("auto");
  Workspace workspace(Threads{2});
  for (const Case& c : cases) Problem(c).check(workspace);
}

}  // namespace
}  // namespace ng::cpu
