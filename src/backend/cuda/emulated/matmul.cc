#include "backend/cuda/emulated/matmul.h"

#include "backend/cuda/emulated/block.h"
#include "format/codec.h"
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
        codec_(element_format(x.type == Type::e5m2 ? "float8_e5m2" : "float8_e4m3fn")) {}

  [[nodiscard]] float operator()(int64_t line, int64_t i) const {
    const int64_t at = by_lines_ ? line * x_.leading + i : i * x_.leading + line;
    switch (x_.type) {
      case Type::fp32:
        return static_cast<const float*>(x_.data)[at];
      case Type::bf16:
        return widened(static_cast<const Bf16*>(x_.data)[at]);
      case Type::int8:
        return static_cast<const int8_t*>(x_.data)[at];
      default:
        return codec_.decode(static_cast<const uint8_t*>(x_.data)[at]);
    }
  }
  [[nodiscard]] float scale(int64_t line) const {
    if (x_.scale == MatmulScale::none) return 1.0f;
    return static_cast<const float*>(x_.scales)[x_.scale == MatmulScale::outer ? line : 0];
  }

 private:
  const MatmulOperand& x_;
  bool by_lines_;
  ElementCodec codec_;
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
  for (const MatmulOperand* x : {&p.a, &p.b})
    if (x->scale > MatmulScale::outer)
      throw Fault("emulated cuBLASLt: scales of blocks are not emulated");
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
      for (int64_t q = 0; q < p.k; ++q) sum += a(i, q) * b(j, q);
      put(p, i, j, sum * a.scale(i) * b.scale(j));
    }
  }
}

}  // namespace ng::cuda::emulated
