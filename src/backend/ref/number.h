// How the operations of `ref` read and write tensors: of any element, one value at a time.
#pragma once

#include <vector>

#include "backend/backend.h"
#include "format/codec.h"
#include "math/bf16.h"

namespace ng::ref {

/// Sums and scores in FP64; grows only for very long contexts and rows.
using Scratch = std::vector<double>;

/// The code at bits [first, first + bits) of a little-endian bit string [format/packing.h], and
/// into them.
[[nodiscard]] uint32_t code_at(const std::byte* data, int64_t first, int bits);
void set_code(std::byte* data, int64_t first, int bits, uint32_t code);

/// The values of a tensor: fl32(fl32(element · scale of its block) · tensor scale) where it has
/// scales, or as its coding says; fl32(element + low) where it is in two parts.
class Reader {
 public:
  /// As they are.
  explicit Reader(const ConstView& x) : Reader(x, false) {}
  /// As an operation reads them that stores `output`: rounded to BF16 where that is BF16.
  Reader(const ConstView& x, const View& output) : Reader(x, output.is(bf16_format())) {}

  [[nodiscard]] int64_t rows() const { return x_.rows; }
  [[nodiscard]] int64_t cols() const { return x_.cols; }
  [[nodiscard]] float operator()(int64_t row, int64_t col) const {
    const float value = stored(row, col);
    return rounded_ ? round_to_bf16(value) : value;
  }
  /// What the element at (row, col) is multiplied by; 1 where nothing is scaled.
  [[nodiscard]] float scale_of(int64_t row, int64_t col) const {
    if (!x_.has_scales()) return 1.0f;
    return x_.scales.tensor == nullptr ? scale(row, col) : scale(row, col) * *x_.scales.tensor;
  }

 private:
  Reader(const ConstView& x, bool rounded);

  [[nodiscard]] float stored(int64_t row, int64_t col) const {
    const int64_t at = row * x_.stride + col;
    if (fp32_) return reinterpret_cast<const float*>(x_.data)[at];
    if (bf16_) return widened(reinterpret_cast<const Bf16*>(x_.data)[at]);
    return decoded(row, col);
  }
  [[nodiscard]] float decoded(int64_t row, int64_t col) const;
  [[nodiscard]] float of_coding(uint32_t code, int64_t row, int64_t col) const;
  [[nodiscard]] float scale(int64_t row, int64_t col) const;

  ConstView x_;
  bool rounded_, fp32_, bf16_;  // fp32, bf16: so stored, without scales
  ElementCodec codec_;
};

/// A tensor that is written: every value is rounded once to its element, nearest even; what lies
/// above the largest becomes infinite, or NaN, where the element has such codes. Throws Unsupported
/// for tensors with scales.
class Writer {
 public:
  explicit Writer(const View& y);

  /// What is there now.
  [[nodiscard]] float operator()(int64_t row, int64_t col) const { return now_(row, col); }
  void put(int64_t row, int64_t col, float value) const;
  /// One FP32 addition, then the rounding.
  void add(int64_t row, int64_t col, float value) const { put(row, col, now_(row, col) + value); }
  /// What a product ends with: the same unless `into` overwrites, rounded behind that where
  /// `round` says so.
  void finish(int64_t row, int64_t col, float value, Into into, Compute round) const {
    const float t = into == Into::add ? now_(row, col) + value : value;
    put(row, col, round == Compute::bf16 ? round_to_bf16(t) : t);
  }

 private:
  View y_;
  Reader now_;
  ElementCodec codec_;
};

/// *amax, where it is wanted, of what an operation has stored.
void put_amax(const ConstView& stored, StoredAmax* amax);

/// The rows of a tensor that must be FP32; throws Unsupported naming `operation`.
template <class Byte>
[[nodiscard]] auto fp32_rows(const BasicView<Byte>& x, std::string_view operation) {
  if (x.rows != 0 && (!x.is(fp32_format()) || x.has_scales()))
    throw Unsupported(fmt::format("ref: {} of {}", operation, x.element->name));
  return x.template as<float>();
}

}  // namespace ng::ref
