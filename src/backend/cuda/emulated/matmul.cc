#include "backend/cuda/emulated/matmul.h"

#include "backend/cuda/emulated/block.h"
#include "format/codec.h"
#include "format/scale.h"
#include "math/bf16.h"

namespace ng::cuda::emulated {
namespace {

using Type = MatmulType;

/// op(A) by rows, op(B) by columns: element `i` of line `line` of the dimension that is kept.
class Values {
 public:
  /// `by_lines`: a line lies side by side in memory.
  Values(const MatmulOperand& x, bool by_lines)
      : x_(x),
        by_lines_(by_lines),
        codec_(element_of(is_fp8(x.type) || x.type == Type::e2m1 ? x.type : Type::e4m3)) {}

  [[nodiscard]] float operator()(int64_t line, int64_t i) const {
    const int64_t at = by_lines_ ? line * x_.leading + i : i * x_.leading + line;
    switch (x_.type) {
      case Type::fp32:
        return static_cast<const float*>(x_.data)[at];
      case Type::bf16:
        return widened(static_cast<const Bf16*>(x_.data)[at]);
      case Type::int8:
        return static_cast<const int8_t*>(x_.data)[at];
      case Type::e2m1:  // the first in the lower half of a byte
        return codec_.decode(static_cast<const uint8_t*>(x_.data)[at / 2] >> (at % 2 * 4) & 15u);
      default:
        return codec_.decode(static_cast<const uint8_t*>(x_.data)[at]);
    }
  }
  /// Of a line.
  [[nodiscard]] float scale(int64_t line) const {
    if (x_.scale != MatmulScale::tensor && x_.scale != MatmulScale::outer) return 1.0f;
    return static_cast<const float*>(x_.scales)[x_.scale == MatmulScale::outer ? line : 0];
  }
  /// Of the block of element `i` of a line of `k`, of `lines`.
  [[nodiscard]] float block_scale(int64_t line, int64_t i, int64_t k, int64_t lines) const {
    if (x_.scale == MatmulScale::vec128)
      return static_cast<const float*>(x_.scales)[vec128_scale_at(line, i / 128, lines)];
    if (x_.scale == MatmulScale::block128)
      return static_cast<const float*>(
          x_.scales)[block128_scale_at(line, i / 128, (k + 127) / 128)];
    const bool is_of_16 = x_.scale == MatmulScale::vec16_ue4m3;
    if (!is_of_16 && x_.scale != MatmulScale::vec32_ue8m0) return 1.0f;
    const int64_t length = is_of_16 ? 16 : 32;
    const uint8_t code = static_cast<const uint8_t*>(
        x_.scales)[block_scale_at(line, i / length, (k + length - 1) / length)];
    return is_of_16 ? e4m3_.decode(code) : e8m0_value(code);
  }

 private:
  const MatmulOperand& x_;
  bool by_lines_;
  ElementCodec codec_;
  ElementCodec e4m3_{element_format("float8_e4m3fn")};
};

void put(const Matmul& p, int64_t i, int64_t j, float sum) {
  const int64_t at = j * p.d_leading + i;
  if (p.d_type == Type::fp32) {
    float& y = static_cast<float*>(p.d)[at];
    y = p.add ? y + sum : sum;
  } else {
    Bf16& y = static_cast<Bf16*>(p.d)[at];
    y = to_bf16(p.add ? widened(y) + sum : sum);
  }
}

}  // namespace

void matmul(Device& device, const Matmul& p) {
  const std::string refused = matmul_refusal(device.card(), p);
  if (!refused.empty()) throw Fault(refused);
  const Values a(p.a, p.a.transposed), b(p.b, !p.b.transposed);
  for (int64_t j = 0; j < p.n; ++j) {
    for (int64_t i = 0; i < p.m; ++i) {
      if (p.d_type == Type::int32) {
        int32_t sum = p.add ? static_cast<int32_t*>(p.d)[j * p.d_leading + i] : 0;
        for (int64_t q = 0; q < p.k; ++q)
          sum += static_cast<int32_t>(a(i, q)) * static_cast<int32_t>(b(j, q));
        static_cast<int32_t*>(p.d)[j * p.d_leading + i] = sum;
        continue;
      }
      float sum = 0;
      for (int64_t q = 0; q < p.k; ++q)
        sum += a(i, q) * a.block_scale(i, q, p.k, p.m) * (b(j, q) * b.block_scale(j, q, p.k, p.n));
      put(p, i, j, sum * a.scale(i) * b.scale(j) * p.alpha);
    }
  }
}

}  // namespace ng::cuda::emulated
