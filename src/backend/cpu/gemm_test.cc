#include "backend/cpu/gemm.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "base/isa.h"
#include "format/codec.h"
#include "math/round.h"

namespace ng::cpu {
namespace {

// Values of a matrix with unused space around the rows, at an address no vector divides.
struct Matrix {
  std::vector<float> memory;
  ConstView view;
  View out;

  Matrix(int64_t rows, int64_t cols, int64_t gap, uint32_t seed) {
    memory.resize(static_cast<size_t>(rows * (cols + gap) + 1), 12345.0f);
    std::mt19937 random(seed);
    std::normal_distribution<float> normal;
    out = {memory.data() + 1, rows, cols, cols + gap};
    for (int64_t r = 0; r < rows; ++r)
      for (int64_t c = 0; c < cols; ++c) out.row(r)[c] = normal(random);
    view = out;
  }
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

float value_of(const PackedOperand& operand, int64_t row, int64_t k) {
  const ConstView& s = operand.source;
  const float x = operand.spec.contract == Contract::cols ? s.row(row)[k] : s.row(k)[row];
  if (operand.spec.cast.element->bits == 32) return x;
  if (operand.spec.cast.element->exponent_bits == 8) return round_to_bf16(x);
  const ElementFormat& fp16 = *operand.spec.cast.element;
  return decode(fp16, encode(fp16, x, {}, OverflowRule::special));
}

struct Case {
  int64_t m, n, k;
  Contract a = Contract::cols, b = Contract::cols;
  std::string_view a_format = "fp32", b_format = "fp32";
  Into into = Into::overwrite;
  bool bias = false;
  Compute round = Compute::fp32;
};

std::string describe(const Case& c) {
  return fmt::format("{}x{}x{} a {} {} b {} {} into {} bias {} round {}", c.m, c.n, c.k, c.a_format,
                     int(c.a), c.b_format, int(c.b), int(c.into), c.bias, int(c.round));
}

// The definition, one output at a time. [backend/ref/gemm.h]
float expected(const Case& c, const PackedOperand& a, const PackedOperand& b, int64_t i, int64_t j,
               float y, float bias) {
  float acc = c.into == Into::carry ? y : 0.0f;
  for (int64_t k = 0; k < c.k; ++k) acc = std::fma(value_of(a, i, k), value_of(b, j, k), acc);
  if (c.bias) acc += bias;
  if (c.into == Into::add) acc += y;
  return c.round == Compute::bf16 ? round_to_bf16(acc) : acc;
}

// Every output of one case on one workspace, and that nothing outside y changes.
void check(const Case& c, Workspace& workspace) {
  const auto matrix = [](Contract contract, int64_t rows, int64_t k, uint32_t seed) {
    return contract == Contract::cols ? Matrix(rows, k, 3, seed) : Matrix(k, rows, 5, seed);
  };
  const Matrix a_values = matrix(c.a, c.m, c.k, 1);
  const Matrix b_values = matrix(c.b, c.n, c.k, 2);
  const PackedOperand a = in_place(a_values, c.a_format, c.a);
  const PackedOperand b = in_place(b_values, c.b_format, c.b);
  const Matrix before(c.m, c.n, 7, 3);
  Matrix y(c.m, c.n, 7, 3);
  const Matrix bias(1, c.n, 0, 4);
  gemm(workspace,
       {.y = y.out, .into = c.into, .bias = c.bias ? bias.view.data : nullptr, .round = c.round}, a,
       b);
  Matrix wanted(c.m, c.n, 7, 3);
  for (int64_t i = 0; i < c.m; ++i)
    for (int64_t j = 0; j < c.n; ++j)
      wanted.out.row(i)[j] = expected(c, a, b, i, j, before.view.row(i)[j], bias.view.data[j]);
  for (size_t i = 0; i < y.memory.size(); ++i)
    ASSERT_EQ(float_bits(y.memory[i]), float_bits(wanted.memory[i])) << describe(c) << " at " << i;
}

// Runs `cases` on every instruction set and 1, 2 and 3 threads.
void check_everywhere(std::span<const Case> cases) {
  for (const Isa isa : supported_isas()) {
    force_isa(isa);
    SCOPED_TRACE(name_of(isa));
    for (const int threads : {1, 2, 3}) {
      Workspace workspace(Threads{threads});
      for (const Case& c : cases) {
        check(c, workspace);
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

// More rows and columns than one chunk holds, so that left panels are packed in pieces.
TEST(Gemm, ManyChunks) {
  const Case cases[] = {{.m = 1100, .n = 49, .k = 2050, .into = Into::add},
                        {.m = 2100, .n = 13, .k = 1030, .a = Contract::rows}};
  force_isa("auto");
  Workspace workspace(Threads{2});
  for (const Case& c : cases) check(c, workspace);
}

}  // namespace
}  // namespace ng::cpu
