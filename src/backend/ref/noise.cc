// Noise on weights, by the definition. [recipes.md §1.1 to §1.3; errata-2, 2, 6-10]
#include "backend/ref/noise.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <vector>

#include "backend/drawn_noise.h"
#include "backend/ref/number.h"
#include "format/block_cast.h"
#include "format/learned_formats.h"

namespace ng::ref {
namespace {

constexpr int64_t kTile = kNoiseBlock;  // side of what is summed in FP32

/// Weights that share a bit-width, or some of them.
using BlockPart = BlockGrid::Part;

BlockPart all_of(const NoisyWeight& of) { return {0, of.weight.rows, 0, of.weight.cols}; }

template <class F>
void for_each_element(const BlockPart& part, const F& f) {
  for (int64_t r = part.row; r < part.row_end; ++r)
    for (int64_t c = part.col; c < part.col_end; ++c) f(r, c);
}

/// f(i, j, elements) of every block.
template <class F>
void for_each_block(const NoisyWeight& of, const F& f) {
  const BlockGrid grid = of.grid();
  grid.for_each([&](size_t index, const BlockPart& part) {
    const auto block = static_cast<int64_t>(index);
    f(block / grid.across(), block % grid.across(), part);
  });
}

/// Σ value(row, col) of 32 × 32 elements or fewer, as what `value` returns: lane l of 16 adds
/// columns l and l + 16, rows in order; lanes fold by +8, +4, +2, +1.
template <class F>
auto tile_sum(const BlockPart& tile, const F& value) {
  std::array<decltype(value(0, 0)), 16> lanes{};
  for_each_element(tile, [&](int64_t r, int64_t c) {
    lanes[static_cast<size_t>(c - tile.col) % lanes.size()] += value(r, c);
  });
  for (size_t half = lanes.size() / 2; half > 0; half /= 2)
    for (size_t l = 0; l < half; ++l) lanes[l] += lanes[l + half];
  return lanes[0];
}

/// The same of a block of any size: of its tiles in order, in FP64.
template <class F>
double block_sum(const BlockPart& block, const F& value) {
  double sum = 0;
  for (int64_t r = block.row; r < block.row_end; r += kTile)
    for (int64_t c = block.col; c < block.col_end; c += kTile)
      sum += tile_sum(
          BlockPart{r, std::min(r + kTile, block.row_end), c, std::min(c + kTile, block.col_end)},
          value);
  return sum;
}

float scale_of(const NoisyWeight& of, const Reader& w, int64_t i, int64_t j,
               const BlockPart& block) {
  float amax = 0;
  for_each_element(block, [&](int64_t r, int64_t c) {
    const float a = std::fabs(w(r, c));
    if (a > amax || a != a) amax = a;
  });
  const float b_i = of.bit_widths.as<const float>().row(i)[j];
  return noise_scale(amax, bits_of_block(b_i, of.b_init, of.b_target));
}

void add_proxy(const AddNoise& op, const Reader& w, const Writer& y) {
  const NoiseProxy proxy = proxy_of(op.of);
  const auto alpha = static_cast<float>(proxy.alpha), delta = static_cast<float>(proxy.delta);
  op.scales.as<float>().row(0)[0] = delta;
  for_each_element(all_of(op.of), [&](int64_t r, int64_t c) {
    const float x = w(r, c);
    const float clipped = std::copysign(alpha, x);
    y.put(r, c, std::fabs(x) >= alpha ? clipped : x + noise_at(op.of, r, c) * delta);
  });
}

void proxy_backward(const AddNoiseBackward& op, const Reader& w) {
  const NoiseProxy proxy = proxy_of(op.of);
  const auto alpha = static_cast<float>(proxy.alpha);
  const Writer grad(op.grad);
  const auto is_clipped = [&](int64_t r, int64_t c) { return std::fabs(w(r, c)) >= alpha; };
  const BlockPart all = all_of(op.of);
  const double by_noise = block_sum(all, [&](int64_t r, int64_t c) {
    return is_clipped(r, c) ? 0.0 : double{grad(r, c)} * double{noise_at(op.of, r, c)};
  });
  const double by_clip = block_sum(all, [&](int64_t r, int64_t c) {
    return is_clipped(r, c) ? double{std::copysign(1.0f, w(r, c)) * grad(r, c)} : 0.0;
  });
  for_each_element(all, [&](int64_t r, int64_t c) {
    if (is_clipped(r, c)) grad.put(r, c, 0);
  });
  op.bits.as<float>().row(0)[0] = static_cast<float>(by_noise * proxy.delta_by_bits);
  op.clip.as<float>().row(0)[0] = static_cast<float>(by_clip + by_noise * proxy.delta_by_alpha);
}

float sign_of(double x) { return static_cast<float>((x > 0) - (x < 0)); }

}  // namespace

void perform(const AddNoise& op) {
  op.of.check_shapes();
  const Reader w(op.of.weight);
  const Writer y(op.y);
  if (op.of.kind == NoiseKind::nipq) return add_proxy(op, w, y);
  for_each_block(op.of, [&](int64_t i, int64_t j, const BlockPart& block) {
    const float s = scale_of(op.of, w, i, j, block);
    op.scales.as<float>().row(i)[j] = s;
    for_each_element(
        block, [&](int64_t r, int64_t c) { y.put(r, c, w(r, c) + noise_at(op.of, r, c) * s); });
  });
}

void perform(const AddNoiseBackward& op) {
  op.of.check_shapes();
  const Reader grad(op.grad);
  if (op.of.kind == NoiseKind::nipq) return proxy_backward(op, Reader(op.of.weight));
  for_each_block(op.of, [&](int64_t i, int64_t j, const BlockPart& block) {
    const double sum =
        block_sum(block, [&](int64_t r, int64_t c) { return grad(r, c) * noise_at(op.of, r, c); });
    op.bits.as<float>().row(i)[j] =
        kMinusLn2 * op.scales.as<const float>().row(i)[j] * static_cast<float>(sum);
  });
}

void perform(const QuantizeByProxy& op) {
  op.of.check_shapes();
  const Reader w(op.of.weight);
  const Writer y(op.y);
  const NoiseProxy proxy = quiet_proxy_of(op.of);
  const auto alpha = static_cast<float>(proxy.alpha), delta = static_cast<float>(proxy.delta);
  for_each_element(all_of(op.of), [&](int64_t r, int64_t c) {
    const float x = w(r, c);
    y.put(r, c,
          std::fabs(x) >= alpha ? std::copysign(alpha, x) : std::nearbyint(x / delta) * delta);
  });
}

void round_blocks(const RoundByBits& op, int64_t i) {
  const Reader x(op.x);
  const Writer y(op.y);
  const BlockGrid grid = op.of.grid();
  for (int64_t j = 0; j < grid.across(); ++j) {
    const BlockPart block = grid.part(i, j);
    float amax = 0;
    for_each_element(block, [&](int64_t r, int64_t c) {
      const float a = std::fabs(x(r, c));
      if (a > amax || a != a) amax = a;
    });
    const float b_t = bits_of(op.of, i, j);
    const bool is_finite = std::isfinite(amax) && std::isfinite(b_t);
    const BlockCast cast(is_finite ? *format_for_bits(b_t).cast.element : fp32_format(), amax);
    for_each_element(
        block, [&](int64_t r, int64_t c) { y.put(r, c, is_finite ? cast(x(r, c)) : x(r, c)); });
  }
}

void perform(const RoundByBits& op) {
  NG_CHECK(same_shape(op.x, op.y), op.x.rows, op.x.cols, op.y.rows, op.y.cols);
  op.of.check_shapes();
  for (int64_t i = 0; i < op.of.grid().down(); ++i) round_blocks(op, i);
}

OperandStats counts_of(const CountCast& op, int64_t first, int64_t count) {
  const Reader x(op.x), y(op.y);
  const float most = range_of(*op.y.element).max;
  OperandStats counts;
  for_each_element({first, first + count, 0, op.x.cols}, [&](int64_t r, int64_t c) {
    const float before = x(r, c), after = y(r, c);
    ++counts.values;
    counts.saturated += std::fabs(before) > most * y.scale_of(r, c) ? 1 : 0;
    counts.flushed += before != 0 && after == 0 ? 1 : 0;
    counts.narrowed += after != round_to_bf16(before) ? 1 : 0;
  });
  return counts;
}

void perform(const CountCast& op) {
  NG_CHECK(same_shape(op.x, op.y), op.x.rows, op.x.cols, op.y.rows, op.y.cols);
  *op.stats += counts_of(op, 0, op.x.rows);
}

void perform(const FinishNoiseGradient& op) {
  const NoisyWeight& of = op.of;
  NG_CHECK(same_shape(op.bits, of.bit_widths), op.bits.rows, op.bits.cols);
  const auto bits = op.bits.as<float>();
  const auto b_i = of.bit_widths.as<const float>();
  if (of.kind == NoiseKind::nipq) {
    const double share = sigmoid(b_i.row(0)[0]);
    const float penalty = op.lambda * sign_of(proxy_bits(b_i.row(0)[0]) - of.b_target);
    bits.row(0)[0] = static_cast<float>(12 * share * (1 - share) * (bits.row(0)[0] + penalty));
    op.clip.as<float>().row(0)[0] *=
        static_cast<float>(sigmoid(of.clip.as<const float>().row(0)[0]));
    return;
  }
  const float share = op.lambda / static_cast<float>(of.bit_widths.size());
  for (int64_t i = 0; i < of.bit_widths.rows; ++i)
    for (int64_t j = 0; j < of.bit_widths.cols; ++j) {
      const float b_t = bits_of_block(b_i.row(i)[j], of.b_init, of.b_target);
      bits.row(i)[j] =
          (of.b_init - of.b_target) * (bits.row(i)[j] + share * sign_of(b_t - of.b_target));
    }
}

}  // namespace ng::ref
