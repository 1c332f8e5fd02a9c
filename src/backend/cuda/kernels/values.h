// Matrices in the card's memory as kernels read and write them: FP32 or BF16 in rows.
#pragma once

#include <cstdint>

#include "backend/backend.h"
#include "backend/cuda/words.h"

namespace ng::cuda {

/// What a kernel reads.
struct Source {
  const void* data = nullptr;
  int64_t rows = 0, cols = 0, stride = 0;
  bool is_bf16 = false;
  bool is_rounded = false;  ///< read rounded to BF16, for the output is stored so

  [[nodiscard]] __device__ float operator()(int64_t row, int64_t col) const {
    const int64_t at = row * stride + col;
    if (is_bf16) return widened(static_cast<const Bf16*>(data)[at]);
    const float value = static_cast<const float*>(data)[at];
    return is_rounded ? round_to_bf16(value) : value;
  }
};

/// What a kernel writes: each value is rounded once, to nearest even, to what is stored.
struct Target {
  void* data = nullptr;
  int64_t rows = 0, cols = 0, stride = 0;
  bool is_bf16 = false;

  __device__ void put(int64_t row, int64_t col, float value) const {
    const int64_t at = row * stride + col;
    if (is_bf16)
      static_cast<Bf16*>(data)[at] = to_bf16(value);
    else
      static_cast<float*>(data)[at] = value;
  }
  /// What is there now.
  [[nodiscard]] __device__ float operator()(int64_t row, int64_t col) const {
    return Source{data, rows, cols, stride, is_bf16}(row, col);
  }
  /// One FP32 addition, then the rounding.
  __device__ void add(int64_t row, int64_t col, float value) const {
    put(row, col, (*this)(row, col) + value);
  }
};

[[noreturn]] inline void refuse(std::string_view what, const ElementFormat& element,
                                bool has_scales) {
  throw Unsupported("cuda: " + std::string(what) + " of " + std::string(element.name) +
                    (has_scales ? " with scales" : ""));
}

/// Of FP32 or BF16 without scales, else Unsupported naming `operation`. No rows: nothing is read.
[[nodiscard]] inline Source source_of(std::string_view operation, const ConstView& x,
                                      bool is_rounded = false) {
  if (x.rows == 0) return {};
  const bool is_bf16 = x.is(bf16_format());
  if ((!is_bf16 && !x.is(fp32_format())) || x.has_scales())
    refuse(operation, *x.element, x.has_scales());
  return {x.data, x.rows, x.cols, x.stride, is_bf16, is_rounded};
}
/// As an operation reads it that stores `output`.
[[nodiscard]] inline Source source_of(std::string_view operation, const ConstView& x,
                                      const View& output) {
  return source_of(operation, x, output.is(bf16_format()));
}
[[nodiscard]] inline Target target_of(std::string_view operation, const View& y) {
  const Source there = source_of(operation, y);
  return {y.data, there.rows, there.cols, there.stride, there.is_bf16};
}

/// Of a step whose decision lies in the card's memory; null: never skipped.
__device__ inline bool skips(const StepControl* control) {
  return control != nullptr && control->skip != 0;
}

/// Division by a number that a launch fixes: of numbers below 2^31 a multiplication, for cards have
/// no instruction that divides integers. [Granlund and Montgomery, PLDI 1994]
class Divisor {
 public:
  explicit Divisor(int64_t by) : by_(by) {
    if (by < 1 || by >> 31 != 0) return;
    while ((int64_t{1} << (shift_ - kBits)) < by) ++shift_;
    factor_ = static_cast<uint32_t>(((uint64_t{1} << shift_) + static_cast<uint64_t>(by) - 1) /
                                    static_cast<uint64_t>(by));
  }
  [[nodiscard]] NG_HD int64_t by() const { return by_; }
  /// n / by(), n >= 0.
  [[nodiscard]] NG_HD int64_t operator()(int64_t n) const {
    if (factor_ == 0 || n >> kBits != 0) return n / by_;
    return static_cast<int64_t>((static_cast<uint64_t>(n) * factor_) >> shift_);
  }
  struct Parts {
    int64_t quotient, rest;
  };
  /// The same with what is left.
  [[nodiscard]] NG_HD Parts split(int64_t n) const {
    const int64_t quotient = (*this)(n);
    return {quotient, n - quotient * by_};
  }

 private:
  static constexpr int kBits = 31;
  int64_t by_;
  uint32_t factor_ = 0;  ///< 2^shift / by, rounded up; 0: `by` is too large
  int shift_ = kBits;
};

// ---------------------------------------------------------------- a thread for each value

inline constexpr int kEachThreads = 256;

[[nodiscard]] inline unsigned blocks_of(int64_t threads, int64_t per_block = kEachThreads) {
  return static_cast<unsigned>((threads + per_block - 1) / per_block);
}

template <class F>
__global__ void __launch_bounds__(kEachThreads) each(F f, int64_t size, Divisor cols) {
  const int64_t i = int64_t{blockIdx.x} * kEachThreads + threadIdx.x;
  if (i >= size) return;
  const auto [row, col] = cols.split(i);
  f(row, col);
}

/// f(row, col) of each place, in any order; F holds what it needs, by value.
template <class F>
void for_each_place(Stream stream, int64_t rows, int64_t cols, const F& f) {
  if (rows * cols == 0) return;
  launch<each<F>>(stream, {.grid = {blocks_of(rows * cols)}, .block = {kEachThreads}}, f,
                  rows * cols, Divisor(cols));
}

// ---------------------------------------------------------------- a warp for each row

inline constexpr int kRowThreads = 128;
inline constexpr int kRowWarps = kRowThreads / kWarp;
/// That a multiprocessor has at least: with more in view ptxas puts registers into memory.
inline constexpr int kRowBlocks = 4;

/// The sum of a warp, in each lane: by +16, +8, ... +1.
template <class T>
__device__ T sum_of_warp(T x) {
  for (int distance = kWarp / 2; distance > 0; distance /= 2)
    x += __shfl_xor_sync(~0u, x, distance);
  return x;
}
/// The largest of a warp, in each lane, NaN aside.
__device__ inline float largest_value_of_warp(float x) {
  for (int distance = kWarp / 2; distance > 0; distance /= 2) {
    const float other = __shfl_xor_sync(~0u, x, distance);
    x = other > x ? other : x;
  }
  return x;
}

template <int kBlocks, class F>
__global__ void __launch_bounds__(kRowThreads, kBlocks) each_row(F f, int64_t rows) {
  const int64_t row = int64_t{blockIdx.x} * kRowWarps + threadIdx.x / kWarp;
  if (row < rows) f(row, static_cast<int>(threadIdx.x) % kWarp);
}

/// f(row, lane) by a warp for each row, of which there are less than 2^32.
template <int kBlocks = kRowBlocks, class F>
void for_each_row(Stream stream, int64_t rows, const F& f) {
  NG_CHECK(rows >> 32 == 0, rows);
  if (rows == 0) return;
  launch<each_row<kBlocks, F>>(
      stream, {.grid = {blocks_of(rows, kRowWarps)}, .block = {kRowThreads}}, f, rows);
}

}  // namespace ng::cuda
