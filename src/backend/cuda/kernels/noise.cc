// Noise on weights. The bits of `ref`. [recipes.md §1.1 to §1.3; errata-2, 2, 6-10]
#include "backend/cuda/kernels/noise.h"

#include <cmath>

namespace ng::cuda {
namespace {

constexpr int64_t kNoiseCols = kWarp;  ///< that a warp takes of a row: all of one block

/// Scales of blocks, row by row.
struct BlockNumbers {
  float* data;
  int64_t stride;
  [[nodiscard]] __device__ float& at(int64_t i, int64_t j) const { return data[i * stride + j]; }
  [[nodiscard]] __device__ uint32_t* bits(int64_t i, int64_t j) const {
    return reinterpret_cast<uint32_t*>(data + i * stride + j);
  }
};
/// Null where it has no rows.
const float* fp32_of(const ConstView& x) {
  if (x.rows == 0) return nullptr;
  NG_CHECK(x.is(fp32_format()) && !x.has_scales(), x.element->name);
  return reinterpret_cast<const float*>(x.data);
}
BlockNumbers block_numbers(const ConstView& x) {
  return {const_cast<float*>(fp32_of(x)), x.stride};
}

struct ForgetScales {
  BlockNumbers scales;
  __device__ void operator()(int64_t i, int64_t j) const { *scales.bits(i, j) = 0; }
};

/// Of 32 columns of a row; patterns of magnitudes are ordered as they are, NaN on top.
struct FindLargestOfBlocks {
  CardNoise of;
  BlockNumbers scales;
  __device__ void operator()(int64_t unit, int lane) const {
    const int64_t pieces = (of.cols + kNoiseCols - 1) / kNoiseCols;
    const int64_t row = unit / pieces, first = unit % pieces * kNoiseCols, col = first + lane;
    const uint32_t magnitude = col < of.cols ? float_bits(of.weight(row, col)) & 0x7FFFFFFFu : 0u;
    const uint32_t largest = largest_bits_of_warp(magnitude);
    if (lane == 0) atomicMax(scales.bits(row / of.height, first / of.width), largest);
  }
};

struct ScaleBlocks {
  CardNoise of;
  BlockNumbers scales;
  __device__ void operator()(int64_t i, int64_t j) const {
    scales.at(i, j) = noise_scale(scales.at(i, j), of.bits(i, j));
  }
};

struct AddNoiseEach {
  CardNoise of;
  BlockNumbers scales;
  Target y;
  __device__ void operator()(int64_t row, int64_t col) const {
    const float s = scales.at(row / of.height, col / of.width);
    y.put(row, col, of.weight(row, col) + of.noise(row, col) * s);
  }
};

/// What nipq clips at and adds, found once.
struct CardProxy {
  float alpha = 0, delta = 0;
  double delta_by_alpha = 0, delta_by_bits = 0;
};
struct FindProxy {
  CardNoise of;
  bool is_quiet;
  CardProxy* proxy;
  float* scale;  ///< null: nobody asks
  __device__ void operator()(int64_t /* row */, int64_t /* col */) const {
    const NoiseProxy found = of.proxy(is_quiet);
    *proxy = {static_cast<float>(found.alpha), static_cast<float>(found.delta),
              found.delta_by_alpha, found.delta_by_bits};
    if (scale != nullptr) *scale = proxy->delta;
  }
};

struct AddProxyEach {
  CardNoise of;
  const CardProxy* proxy;
  bool is_quiet;  ///< round(w/Δ)·Δ in place of w + n·Δ
  Target y;
  __device__ void operator()(int64_t row, int64_t col) const {
    const float x = of.weight(row, col), alpha = proxy->alpha, delta = proxy->delta;
    if (std::fabs(x) >= alpha) return y.put(row, col, std::copysign(alpha, x));
    y.put(row, col, is_quiet ? std::nearbyint(x / delta) * delta : x + of.noise(row, col) * delta);
  }
};

/// Sums of a tile of 32 x 32.
struct TileSums {
  double noise = 0, clip = 0;
};

/// A tile by a warp: lane l of 16 adds columns l and l + 16, rows in order; lanes fold by +8, +4,
/// +2, +1. T: float, nipq's double.
template <class T>
struct SumTiles {
  CardNoise of;
  Target grad;
  const CardProxy* proxy;  ///< nipq
  TileSums* sums;

  [[nodiscard]] NG_HD int64_t across() const { return (of.cols + kNoiseBlock - 1) / kNoiseBlock; }
  __device__ void add(int64_t row, int64_t col, T& noise, T& clip) const {
    const float g = grad(row, col);
    if constexpr (sizeof(T) == sizeof(float)) {
      noise += g * of.noise(row, col);
    } else {
      const float w = of.weight(row, col);
      const bool is_clipped = std::fabs(w) >= proxy->alpha;
      noise += is_clipped ? 0.0 : double{g} * double{of.noise(row, col)};
      clip += is_clipped ? double{std::copysign(1.0f, w) * g} : 0.0;
    }
  }
  __device__ void operator()(int64_t unit, int lane) const {
    constexpr int kLanes = 16;
    const int64_t row0 = unit / across() * kNoiseBlock, col0 = unit % across() * kNoiseBlock;
    T noise = 0, clip = 0;
    for (int64_t row = row0; row < row0 + kNoiseBlock && row < of.rows && lane < kLanes; ++row)
      for (int64_t col = col0 + lane; col < col0 + kNoiseBlock && col < of.cols; col += kLanes)
        add(row, col, noise, clip);
    for (int half = kLanes / 2; half > 0; half /= 2) {
      noise += __shfl_down_sync(~0u, noise, half);
      clip += __shfl_down_sync(~0u, clip, half);
    }
    if (lane == 0) sums[unit] = {noise, clip};
  }
};

/// Sums of a block's tiles in order.
__device__ inline TileSums sums_of_block(const CardNoise& of, const TileSums* sums, int64_t i,
                                         int64_t j) {
  const int64_t across = (of.cols + kNoiseBlock - 1) / kNoiseBlock;
  TileSums total;
  for (int64_t row = i * of.height; row < (i + 1) * of.height && row < of.rows; row += kNoiseBlock)
    for (int64_t col = j * of.width; col < (j + 1) * of.width && col < of.cols;
         col += kNoiseBlock) {
      const TileSums& tile = sums[row / kNoiseBlock * across + col / kNoiseBlock];
      total.noise += tile.noise;
      total.clip += tile.clip;
    }
  return total;
}

struct PutBitGradient {
  CardNoise of;
  const TileSums* sums;
  BlockNumbers bits, scales;
  __device__ void operator()(int64_t i, int64_t j) const {
    const auto sum = static_cast<float>(sums_of_block(of, sums, i, j).noise);
    bits.at(i, j) = kMinusLn2 * scales.at(i, j) * sum;
  }
};

struct PutProxyGradient {
  CardNoise of;
  const TileSums* sums;
  const CardProxy* proxy;
  BlockNumbers bits, clip;
  __device__ void operator()(int64_t /* row */, int64_t /* col */) const {
    const TileSums sum = sums_of_block(of, sums, 0, 0);
    bits.at(0, 0) = static_cast<float>(sum.noise * proxy->delta_by_bits);
    clip.at(0, 0) = static_cast<float>(sum.clip + sum.noise * proxy->delta_by_alpha);
  }
};

struct ClearClipped {
  CardNoise of;
  const CardProxy* proxy;
  Target grad;
  __device__ void operator()(int64_t row, int64_t col) const {
    if (std::fabs(of.weight(row, col)) >= proxy->alpha) grad.put(row, col, 0);
  }
};

__device__ inline float sign_of(double x) { return x > 0 ? 1.0f : x < 0 ? -1.0f : 0.0f; }

struct FinishBits {
  CardNoise of;
  BlockNumbers bits;
  float share;  ///< λ of each block
  __device__ void operator()(int64_t i, int64_t j) const {
    const float b_t = of.bits(i, j);
    bits.at(i, j) =
        (of.b_init - of.b_target) * (bits.at(i, j) + share * sign_of(b_t - of.b_target));
  }
};

struct FinishProxy {
  CardNoise of;
  BlockNumbers bits, clip;
  float lambda;
  __device__ void operator()(int64_t /* row */, int64_t /* col */) const {
    const double share = sigmoid(*of.bit_widths);
    const float penalty = lambda * sign_of(proxy_bits(*of.bit_widths) - of.b_target);
    bits.at(0, 0) = static_cast<float>(12 * share * (1 - share) * (bits.at(0, 0) + penalty));
    clip.at(0, 0) *= static_cast<float>(sigmoid(*of.clip));
  }
};

}  // namespace

CardNoise card_noise(Stream stream, const NoisyWeight& of) {
  CardNoise noise;
  noise.kind = of.kind;
  if (of.weight.data != nullptr) noise.weight = stored_source(of.weight);
  noise.rows = of.weight.rows;
  noise.cols = of.weight.cols;
  if (of.weight.rows > 0) {  // else nobody asks where blocks lie
    const BlockGrid grid = of.grid();
    noise.height = grid.height;
    noise.width = grid.width;
  }
  noise.bit_widths = fp32_of(of.bit_widths);
  noise.bits_stride = of.bit_widths.stride;
  noise.b_init = of.b_init;
  noise.b_target = of.b_target;
  noise.key = noise.bits_key = step_key(stream, of.noise_key());
  noise.bits_key.key.tensor = of.bits_tensor;
  noise.given = fp32_of(of.noise);
  noise.given_stride = of.noise.stride;
  noise.clip = fp32_of(of.clip);
  noise.bit_noise = fp32_of(of.bit_noise);
  return noise;
}

void perform(Stream stream, const AddNoise& op, const Scratch& scratch) {
  op.of.check_shapes();
  const CardNoise of = card_noise(stream, op.of);
  const Target y = target_of(AddNoise::kName, op.y);
  const BlockNumbers scales = block_numbers(op.scales);
  if (of.kind == NoiseKind::nipq) {
    auto* proxy = scratch.take<CardProxy>(AddNoise::kName, 1);
    for_each_place(stream, 1, 1, FindProxy{of, false, proxy, scales.data});
    return for_each_place(stream, of.rows, of.cols, AddProxyEach{of, proxy, false, y});
  }
  for_each_place(stream, of.down(), of.across(), ForgetScales{scales});
  for_each_row(stream, of.rows * ((of.cols + kNoiseCols - 1) / kNoiseCols),
               FindLargestOfBlocks{of, scales});
  for_each_place(stream, of.down(), of.across(), ScaleBlocks{of, scales});
  for_each_place(stream, of.rows, of.cols, AddNoiseEach{of, scales, y});
}

void perform(Stream stream, const QuantizeByProxy& op, const Scratch& scratch) {
  op.of.check_shapes();
  const CardNoise of = card_noise(stream, op.of);
  auto* proxy = scratch.take<CardProxy>(QuantizeByProxy::kName, 1);
  for_each_place(stream, 1, 1, FindProxy{of, true, proxy, nullptr});
  for_each_place(stream, of.rows, of.cols,
                 AddProxyEach{of, proxy, true, target_of(QuantizeByProxy::kName, op.y)});
}

void perform(Stream stream, const AddNoiseBackward& op, const Scratch& scratch) {
  op.of.check_shapes();
  constexpr std::string_view kName = AddNoiseBackward::kName;
  const CardNoise of = card_noise(stream, op.of);
  const Target grad = target_of(kName, op.grad);
  auto* proxy = scratch.take<CardProxy>(kName, 1);
  const int64_t tiles =
      ((of.rows + kNoiseBlock - 1) / kNoiseBlock) * ((of.cols + kNoiseBlock - 1) / kNoiseBlock);
  auto* sums = scratch.behind<CardProxy>(1).take<TileSums>(kName, tiles);
  if (of.kind != NoiseKind::nipq) {
    for_each_row(stream, tiles, SumTiles<float>{of, grad, nullptr, sums});
    return for_each_place(
        stream, of.down(), of.across(),
        PutBitGradient{of, sums, block_numbers(op.bits), block_numbers(op.scales)});
  }
  for_each_place(stream, 1, 1, FindProxy{of, false, proxy, nullptr});
  for_each_row(stream, tiles, SumTiles<double>{of, grad, proxy, sums});
  for_each_place(stream, 1, 1,
                 PutProxyGradient{of, sums, proxy, block_numbers(op.bits), block_numbers(op.clip)});
  for_each_place(stream, of.rows, of.cols, ClearClipped{of, proxy, grad});
}

void perform(Stream stream, const FinishNoiseGradient& op) {
  NG_CHECK(same_shape(op.bits, op.of.bit_widths), op.bits.rows, op.bits.cols);
  const CardNoise of = card_noise(stream, op.of);
  const BlockNumbers bits = block_numbers(op.bits);
  if (of.kind == NoiseKind::nipq)
    return for_each_place(stream, 1, 1, FinishProxy{of, bits, block_numbers(op.clip), op.lambda});
  const float share = op.lambda / static_cast<float>(op.of.bit_widths.size());
  for_each_place(stream, op.bits.rows, op.bits.cols, FinishBits{of, bits, share});
}

}  // namespace ng::cuda
