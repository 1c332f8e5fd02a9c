// Products of unscaled operands for tests of the GEMM, which compare them with the definition bit
// for bit.
#pragma once

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <optional>
#include <random>
#include <span>
#include <string>
#include <vector>

#include "backend/cpu/gemm/gemm.h"
#include "base/isa.h"
#include "format/codec.h"
#include "math/bf16.h"
#include "math/round.h"

namespace ng::cpu {

inline constexpr float kBroken[] = {std::numeric_limits<float>::infinity(),
                                    -std::numeric_limits<float>::infinity(),
                                    std::numeric_limits<float>::quiet_NaN(), 3.4e38f, -3.4e38f};

// How values are spread: normal · 2^e, e in [low, low + range); one in `zero_of` is +0 or -0.
struct Spread {
  int low = 0, range = 1;
  uint32_t zero_of = ~0u;
  uint32_t broken_of = ~0u;  // as many are infinite, NaN, or above BF16's largest
};

// Values of a matrix with unused space around the rows, at an address no vector divides.
struct Matrix {
  std::vector<float> memory;
  std::vector<Bf16> halves;  // the same values, where those are BF16
  Rows<const float> view;
  Rows<float> out;
  Rows<Bf16> out16;

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
        if (spread.broken_of != ~0u && random() % spread.broken_of == 0)
          out.row(r)[c] = kBroken[random() % std::size(kBroken)];
      }
    view = out;
  }
  Matrix(const Matrix&) = delete;
  // Rounds all values to BF16 and stores them as such, too.
  void round() {
    halves.clear();
    for (float& x : memory) {
      halves.push_back(to_bf16(x));
      x = widened(halves.back());
    }
    out16 = {halves.data() + 1, out.rows, out.cols, out.stride};
  }
};

// A plain cast to `format`; memory is (k, rows) where `contract` is rows.
inline PackedOperand in_place(const Matrix& matrix, std::string_view format, Contract contract,
                              std::optional<Overflow> overflow = {}) {
  PackedOperand packed;
  const bool cols = contract == Contract::cols;
  packed.spec.cast = operand_of(format);
  if (overflow) packed.spec.cast.overflow = *overflow;
  packed.spec.contract = contract;
  packed.spec.rows = cols ? matrix.view.rows : matrix.view.cols;
  packed.spec.k = cols ? matrix.view.cols : matrix.view.rows;
  packed.source = matrix.view;
  return packed;
}

inline bool same(float x, float y) {
  return float_bits(x) == float_bits(y) || (std::isnan(x) && std::isnan(y));
}

inline float rounded(const Operand& cast, float x) {
  const ElementFormat& format = *cast.element;
  if (format.bits == 32) return x;
  return decode(format, encode(format, x, {}, overflow_rule(cast.overflow)));
}

// What the operand holds: (rows, k), row-major.
inline std::vector<float> values_of(const PackedOperand& operand) {
  const OperandSpec& spec = operand.spec;
  const auto source = operand.source.as<float>();
  std::vector<float> values;
  for (int64_t row = 0; row < spec.rows; ++row)
    for (int64_t k = 0; k < spec.k; ++k)
      values.push_back(rounded(
          spec.cast, spec.contract == Contract::cols ? source.row(row)[k] : source.row(k)[row]));
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
  bool a_is_bf16 = false, b_is_bf16 = false;  // what the sources are stored as
  std::optional<Overflow> overflow{};         // of the casts; else as presets say
};

inline std::string describe(const Case& c) {
  return fmt::format(
      "{}x{}x{} a {} {} 2^{} b {} {} 2^{} into {} 2^{} bias {} round {} stored {} {}", c.m, c.n,
      c.k, c.a_format, int(c.a), c.a_values.low, c.b_format, int(c.b), c.b_values.low, int(c.into),
      c.y_values.low, c.bias, int(c.round), c.a_is_bf16, c.b_is_bf16);
}

// The definition, one output at a time. [backend/ref/gemm.h]
inline float expected(const Case& c, const float* a, const float* b, float y, float bias) {
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
    if (c_.a_is_bf16) a_values_.round();
    if (c_.b_is_bf16) b_values_.round();
    if (can_be_bf16()) wanted_.round();
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
    if (can_be_bf16()) y.round();
    PackedOperand a = left(), b = right();
    if (c_.a_is_bf16) a.source = a_values_.out16;
    if (c_.b_is_bf16) b.source = b_values_.out16;
    Gemm op{.y = y.out,
            .a = &a,
            .b = &b,
            .into = c_.into,
            .bias = c_.bias ? ConstView(bias_.view) : ConstView(),
            .round = c_.round};
    gemm(workspace, op);
    for (size_t i = 0; i < y.memory.size(); ++i)
      ASSERT_TRUE(same(y.memory[i], wanted_.memory[i])) << describe(c_) << " at " << i;
    if (!can_be_bf16()) return;
    op.y = y.out16;
    op.round = Compute::fp32;  // what BF16 is rounded to anyway
    gemm(workspace, op);
    for (size_t i = 0; i < y.halves.size(); ++i)
      ASSERT_TRUE(same(widened(y.halves[i]), round_to_bf16(wanted_.memory[i])))
          << describe(c_) << " as BF16 at " << i;
  }

 private:
  // Sums that carry on need FP32.
  [[nodiscard]] bool can_be_bf16() const { return c_.into != Into::carry; }
  [[nodiscard]] Matrix source(Contract contract, int64_t rows, uint32_t seed,
                              const Spread& spread) const {
    return contract == Contract::cols ? Matrix(rows, c_.k, 3, seed, spread)
                                      : Matrix(c_.k, rows, 5, seed, spread);
  }
  [[nodiscard]] PackedOperand left() const {
    return in_place(a_values_, c_.a_format, c_.a, c_.overflow);
  }
  [[nodiscard]] PackedOperand right() const {
    return in_place(b_values_, c_.b_format, c_.b, c_.overflow);
  }

  Case c_;
  Matrix a_values_, b_values_, bias_, wanted_;
};

// Runs `cases` on every instruction set and 1, 2 and 3 threads.
inline void check_everywhere(std::span<const Case> cases) {
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

}  // namespace ng::cpu
