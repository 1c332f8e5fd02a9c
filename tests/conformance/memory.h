// Matrices of a test on the host, and the same in memory of a backend: stored as FP32 or BF16, in
// rows that lie apart and are not aligned, with guards around them.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "backend/backend.h"
#include "backend/ref/number.h"
#include "table.h"

namespace ng::conformance {

/// Uniform in [-1, 1).
inline float uniform_of(const PhiloxBlock& random) {
  return static_cast<float>(static_cast<int32_t>(random[0])) * 0x1p-31f;
}

/// The same, a pure function of (seed, index).
inline float uniform(uint64_t seed, uint64_t index) {
  return uniform_of(draw({.seed = seed, .purpose = Purpose::data}, index));
}

/// Values on the host, and how they lie in memory of a backend: `padding` elements of guard after
/// each row, starting `shift` elements past an aligned address.
class Matrix {
 public:
  static constexpr float kUnwritten = 12345.678f;

  Matrix() = default;
  Matrix(int64_t rows, int64_t cols, int64_t guards = 0, int64_t unaligned = 0)
      : padding(guards),
        shift(unaligned),
        rows_(rows),
        cols_(cols),
        values_(static_cast<size_t>(rows * cols), kUnwritten) {}
  [[nodiscard]] static Matrix row(const std::vector<float>& values) {
    Matrix m(1, static_cast<int64_t>(values.size()));
    m.values_ = values;
    return m;
  }

  float& at(int64_t r, int64_t c) { return values_[static_cast<size_t>(r * cols_ + c)]; }
  [[nodiscard]] float at(int64_t r, int64_t c) const {
    return values_[static_cast<size_t>(r * cols_ + c)];
  }
  [[nodiscard]] int64_t rows() const { return rows_; }
  [[nodiscard]] int64_t cols() const { return cols_; }

  Matrix& fill_uniform(uint64_t seed, float scale = 1) {
    for (size_t i = 0; i < values_.size(); ++i) values_[i] = scale * uniform(seed, i);
    return *this;
  }
  Matrix& fill(float value) {
    std::fill(values_.begin(), values_.end(), value);
    return *this;
  }
  [[nodiscard]] Matrix rounded_to_bf16() const {
    Matrix rounded = *this;
    std::transform(values_.begin(), values_.end(), rounded.values_.begin(), round_to_bf16);
    return rounded;
  }

  int64_t padding = 0, shift = 0;
  const ElementFormat* element = &fp32_format();  ///< as what a backend had stored it
  bool guards_intact = true;                      ///< nothing outside it was written there

 private:
  int64_t rows_ = 0, cols_ = 0;
  std::vector<float> values_;
};

/// Values of a plain type in memory of a backend. Copies share it.
template <class T>
class Buffer {
 public:
  Buffer(Backend& b, const std::vector<T>& values) : backend_(&b), size_(values.size()) {
    const size_t bytes = std::max<size_t>(size_ * sizeof(T), 1);
    memory_ = std::shared_ptr<std::byte>(
        b.allocate(bytes), [&b, bytes](std::byte* memory) { b.release(memory, bytes); });
    b.upload(memory_.get(), values.data(), size_ * sizeof(T));
  }
  [[nodiscard]] T* data() { return reinterpret_cast<T*>(memory_.get()); }
  [[nodiscard]] std::vector<T> values() const {
    std::vector<T> values(size_);
    backend_->download(values.data(), memory_.get(), size_ * sizeof(T));
    return values;
  }
  [[nodiscard]] std::span<const T> span() const {
    return {reinterpret_cast<const T*>(memory_.get()), size_};
  }

 private:
  Backend* backend_;
  size_t size_;
  std::shared_ptr<std::byte> memory_;
};

/// A matrix in memory of a backend. Copies share it.
class Tensor {
 public:
  Tensor(Backend& b, const Matrix& m, const ElementFormat& element)
      : like_(m), element_(&element), memory_(b, image_of(m, element)) {}

  [[nodiscard]] View view() { return view_of(memory_.data()); }
  // NOLINTNEXTLINE(google-explicit-constructor): the argument of an operation
  operator View() { return view(); }
  // NOLINTNEXTLINE(google-explicit-constructor): the argument of an operation
  operator ConstView() const { return view_of(const_cast<std::byte*>(memory_.span().data())); }

  /// What is there now.
  [[nodiscard]] Matrix values() const {
    std::vector<std::byte> image = memory_.values();
    Matrix now = like_;
    const ref::Reader x(view_of(image.data()));
    for (int64_t r = 0; r < now.rows(); ++r)
      for (int64_t c = 0; c < now.cols(); ++c) now.at(r, c) = x(r, c);
    now.element = element_;
    now.guards_intact = guards_intact(image);
    return now;
  }

 private:
  static constexpr std::byte kGuard{0xA5};
  static constexpr int64_t kBehind = 16;  // elements of guard after the last row's

  [[nodiscard]] static int64_t stride_of(const Matrix& m) { return m.cols() + m.padding; }
  [[nodiscard]] static View view_of(std::byte* memory, const Matrix& m,
                                    const ElementFormat& element) {
    return {memory + bytes_of(element, m.shift), element, m.rows(), m.cols(), stride_of(m)};
  }
  [[nodiscard]] View view_of(std::byte* memory) const { return view_of(memory, like_, *element_); }

  [[nodiscard]] static std::vector<std::byte> image_of(const Matrix& m,
                                                       const ElementFormat& element) {
    const int64_t elements = m.shift + m.rows() * stride_of(m) + kBehind;
    std::vector<std::byte> image(bytes_of(element, elements), kGuard);
    const ref::Writer x(view_of(image.data(), m, element));
    for (int64_t r = 0; r < m.rows(); ++r)
      for (int64_t c = 0; c < m.cols(); ++c) x.put(r, c, m.at(r, c));
    return image;
  }

  [[nodiscard]] bool guards_intact(const std::vector<std::byte>& image) const {
    const auto place = [&](int64_t at) {
      return image.begin() + static_cast<int64_t>(bytes_of(*element_, like_.shift + at));
    };
    const auto are_guards = [](auto first, auto last) {
      return std::all_of(first, last, [](std::byte b) { return b == kGuard; });
    };
    const int64_t stride = stride_of(like_);
    bool intact = are_guards(image.begin(), place(0)) &&
                  are_guards(place(like_.rows() * stride), image.end());
    for (int64_t r = 0; r < like_.rows() && intact; ++r)
      intact = are_guards(place(r * stride + like_.cols()), place((r + 1) * stride));
    return intact;
  }

  Matrix like_;
  const ElementFormat* element_;
  Buffer<std::byte> memory_;
};

/// How a run stores activations and their gradients.
enum class Storage : uint8_t {
  fp32,
  bf16,
  rounded,  ///< as FP32, the inputs rounded to BF16: BF16 results are these, rounded
};
constexpr Storage kStorages[] = {Storage::fp32, Storage::bf16};
inline const char* name_of(Storage storage) { return storage == Storage::fp32 ? "fp32" : "bf16"; }

/// Where a test runs: makes its tensors.
struct Place {
  Backend& backend;
  Storage storage = Storage::fp32;

  void execute(const Operation& operation) const {
    Table::of_all().note(name_of(operation));
    backend.execute(operation);
  }

  [[nodiscard]] Tensor stored(const Matrix& m, const ElementFormat& element) const {
    return {backend, m, element};
  }
  /// Never rounded: statistics, gradients of parameters, optimizer states.
  [[nodiscard]] Tensor fp32(const Matrix& m) const { return stored(m, fp32_format()); }
  [[nodiscard]] Tensor activation(const Matrix& m) const {
    return storage == Storage::bf16 ? stored(m, bf16_format()) : parameter(m);
  }
  /// FP32 that operations in BF16 read rounded: gains, biases, tables.
  [[nodiscard]] Tensor parameter(const Matrix& m) const {
    return fp32(storage == Storage::rounded ? m.rounded_to_bf16() : m);
  }
  template <class T>
  [[nodiscard]] Buffer<T> buffer(const std::vector<T>& values) const {
    return {backend, values};
  }
};

/// An input as an operation reads it.
inline double read(float x, Storage storage) {
  return storage == Storage::fp32 ? x : round_to_bf16(x);
}

}  // namespace ng::conformance
