// For the kernels' tests: odd, unaligned, strided matrices, and every way of running a kernel.
#pragma once

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>
#include <random>
#include <string>
#include <type_traits>
#include <vector>

#include "backend/cpu/workspace.h"
#include "base/sanitized_testing.h"
#include "tensor/view.h"

namespace ng::cpu {

constexpr double kEps = 0x1p-24;  ///< largest relative error of one FP32 rounding
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kInf = std::numeric_limits<float>::infinity();

/// The BF16 value nearest to x, ties to even. From the definition: 8 significant bits.
inline float bf16(float x) {
  if (std::isnan(x) || std::isinf(x) || x == 0) return x;
  const int exponent = std::max(std::ilogb(x), -126);
  const double ulp = std::ldexp(1.0, exponent - 7);
  return static_cast<float>(std::nearbyint(x / ulp) * ulp);
}

inline std::vector<float> bf16(std::vector<float> values) {
  for (float& v : values) v = bf16(v);
  return values;
}

inline float value_of(float x) { return x; }
inline float value_of(Bf16 x) { return widened(x); }

/// x as it is stored; as BF16: rounded.
template <class Value>
Value stored_as(float x) {
  if constexpr (std::is_same_v<Value, float>)
    return x;
  else
    return {static_cast<uint16_t>(std::bit_cast<uint32_t>(bf16(x)) >> 16)};
}

/// Rows that start one value off alignment, `gap` values apart; the gaps hold a sentinel.
template <class Value>
class MatrixOf {
 public:
  MatrixOf(int64_t rows, int64_t cols, int64_t gap = 0)
      : rows_(rows),
        cols_(cols),
        stride_(cols + gap),
        memory_(static_cast<size_t>(rows * (cols + gap) + 1), stored_as<Value>(kSentinel)) {
    for (Value& v : *this) v = {};
  }
  /// The values of another, as this one stores them.
  template <class Other>
  explicit MatrixOf(const MatrixOf<Other>& from)
      : MatrixOf(from.view().rows, from.view().cols, from.view().stride - from.view().cols) {
    for (int64_t r = 0; r < rows_; ++r)
      for (int64_t c = 0; c < cols_; ++c) at(r, c) = stored_as<Value>(value_of(from.at(r, c)));
  }
  /// Normal deviates.
  MatrixOf& randomize(uint32_t seed, float deviation = 1, float mean = 0) {
    std::mt19937 rng(seed);
    std::normal_distribution<float> normal(mean, deviation);
    for (Value& v : *this) v = stored_as<Value>(normal(rng));
    return *this;
  }
  [[nodiscard]] Rows<Value> view() { return {memory_.data() + 1, rows_, cols_, stride_}; }
  [[nodiscard]] Rows<const Value> view() const {
    return {memory_.data() + 1, rows_, cols_, stride_};
  }
  [[nodiscard]] Value& at(int64_t r, int64_t c) { return view().row(r)[c]; }
  [[nodiscard]] const Value& at(int64_t r, int64_t c) const { return view().row(r)[c]; }
  [[nodiscard]] std::vector<float> values() const {
    std::vector<float> all;
    for (int64_t r = 0; r < rows_; ++r)
      for (int64_t c = 0; c < cols_; ++c) all.push_back(value_of(at(r, c)));
    return all;
  }
  /// Every value rounded to BF16.
  [[nodiscard]] MatrixOf rounded() const { return MatrixOf(MatrixOf<Bf16>(*this)); }
  /// True where no kernel wrote between the rows.
  [[nodiscard]] bool gaps_untouched() const {
    const float sentinel = value_of(stored_as<Value>(kSentinel));
    if (value_of(memory_[0]) != sentinel) return false;
    for (int64_t r = 0; r < rows_; ++r)
      for (int64_t c = cols_; c < stride_; ++c)
        if (value_of(view().row(r)[c]) != sentinel) return false;
    return true;
  }

  class Iterator {
   public:
    Iterator(MatrixOf& m, int64_t i) : m_(m), i_(i) {}
    Value& operator*() const { return m_.at(i_ / m_.cols_, i_ % m_.cols_); }
    Iterator& operator++() { return ++i_, *this; }
    bool operator!=(const Iterator& other) const { return i_ != other.i_; }

   private:
    MatrixOf& m_;
    int64_t i_;
  };
  Iterator begin() { return {*this, 0}; }
  Iterator end() { return {*this, rows_ * cols_}; }

 private:
  static constexpr float kSentinel = -12345.0f;
  int64_t rows_, cols_, stride_;
  std::vector<Value> memory_;
};
using Matrix = MatrixOf<float>;

/// Equal bits; NaN equals NaN, whose payload is not promised.
inline bool same_bits(const std::vector<float>& a, const std::vector<float>& b) {
  const auto same = [](float x, float y) {
    return std::bit_cast<uint32_t>(x) == std::bit_cast<uint32_t>(y) ||
           (std::isnan(x) && std::isnan(y));
  };
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), same);
}

/// Runs the checks of `body` on every one of tested_isas().
template <class Body>
void on_every_isa(const Body& body) {
  for (const Isa isa : tested_isas()) {
    SCOPED_TRACE(std::string(name_of(isa)));
    force_isa(isa);
    ASSERT_NO_FATAL_FAILURE(body());
  }
  force_isa("auto");
}

/// Runs `kernel(workspace)`, which returns its results, on each of `isas` with 1, 2 and 3 threads;
/// expects the same bits from all and returns them.
template <class Kernel>
std::vector<float> on_every_machine(const Kernel& kernel,
                                    const std::vector<Isa>& isas = tested_isas()) {
  std::vector<float> first;
  bool have = false;
  for (const Isa isa : isas) {
    force_isa(isa);
    for (const int threads : {1, 2, 3}) {
      Workspace workspace(Threads{threads});
      const std::vector<float> values = kernel(workspace);
      if (!have) first = values, have = true;
      EXPECT_TRUE(same_bits(first, values)) << name_of(isa) << ", threads " << threads;
    }
  }
  force_isa("auto");
  return first;
}

/// All of `parts`, one after another.
inline std::vector<float> joined(std::initializer_list<std::vector<float>> parts) {
  std::vector<float> all;
  for (const std::vector<float>& part : parts) all.insert(all.end(), part.begin(), part.end());
  return all;
}

}  // namespace ng::cpu
