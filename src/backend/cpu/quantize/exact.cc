#include "backend/cpu/quantize/exact.h"

#include <algorithm>
#include <cmath>

#include "format/codec.h"

namespace ng::cpu {
namespace {

Rounder rounder_of(const QuantizeJob& job, int64_t row, int64_t k) {
  const Operand& cast = job.spec.cast;
  if (cast.rounding == Rounding::nearest) return {};
  return {.mode = RoundMode::sr,
          .bits = cast.sr_bits,
          .random = job.source.random_bits(row, k, cast.sr_bits)};
}

void store(const EncodeTile& tile, int64_t row, int64_t col, float value) {
  const int64_t at = row * tile.out_stride + col;
  switch (tile.form) {
    case ElementForm::int8:
      static_cast<int8_t*>(tile.out)[at] = static_cast<int8_t>(value / tile.unit);
      return;
    case ElementForm::bf16:
      static_cast<uint16_t*>(tile.out)[at] = static_cast<uint16_t>(float_bits(value) >> 16);
      return;
    case ElementForm::fp32:
      static_cast<float*>(tile.out)[at] = value;
  }
}

// What the encoder sees of `value`: NaN stays NaN, also under a scale of zero unless that is E4M3.
float scaled(const QuantizeJob& job, float value, float multiplier) {
  const float prescaled = value * job.spec.cast.prescale;
  if (job.divides) return prescaled / multiplier;
  if (job.spec.cast.scale == ScaleKind::e4m3 && multiplier == 0) return std::copysign(0.0f, value);
  return prescaled * multiplier;
}

}  // namespace

void exact_encode(const QuantizeJob& job, const Piece& piece, const EncodeTile& tile,
                  const float* decode, OperandStats& stats) {
  const Operand& cast = job.spec.cast;
  const ElementCodec codec(*cast.element);
  const OverflowRule overflow = overflow_rule(cast.overflow);
  for (int64_t r = 0; r < tile.rows; ++r) {
    const int64_t scale_row = r / tile.rows_per_multiplier * tile.multiplier_stride;
    for (int64_t c = 0; c < tile.cols; ++c) {
      const float value = tile.values(r, c);
      const bool counted = c < tile.counted_cols;
      stats.nan += counted && std::isnan(value) ? 1 : 0;
      stats.inf += counted && std::isinf(value) ? 1 : 0;
      float result = value;
      if (std::isnan(decode[scale_row + c / tile.block])) {
        result = 0.0f;
      } else if (!cast.is_fp32()) {
        float y = scaled(job, value, tile.multipliers[scale_row + c / tile.block]);
        const bool counts = counted && std::isfinite(value);
        stats.saturated += counts && std::fabs(y) > job.request.max ? 1 : 0;
        if (cast.scale == ScaleKind::e4m3 && !std::isnan(y))
          y = std::clamp(y, -job.request.max, job.request.max);
        const Rounder rounder = rounder_of(job, piece.row + r, piece.k + c);
        result = codec.decode(codec.encode(y, rounder, overflow));
        stats.flushed += counts && value != 0 && result == 0 ? 1 : 0;
      }
      store(tile, r, c, result);
    }
  }
}

uint32_t amax_without_nan(const TileValues& values, int64_t rows, int64_t cols) {
  float amax = 0.0f;
  for (int64_t r = 0; r < rows; ++r)
    for (int64_t c = 0; c < cols; ++c) {
      const float magnitude = std::fabs(values(r, c));
      if (magnitude > amax) amax = magnitude;  // fmax drops amax where the NaN is a signalling one
    }
  return float_bits(amax);
}

ScaleChoice choose_scale(const QuantizeJob& job, const Piece& block, float amax, float* buffer) {
  const ElementCodec codec(*job.spec.cast.element);
  const int e = e8m0_exponent(ScaleRule::mse, amax, range_of(codec.format()));
  const uint32_t code[2] = {e8m0_code(e), e8m0_code(e + 1)};
  double error[2] = {};
  for (int64_t r = 0; r < block.rows; ++r) {
    for (int64_t k = 0; k < block.cols; k += job.plan.piece_cols) {
      const int64_t cols = std::min(job.plan.piece_cols, block.cols - k);
      const Piece part{.row = block.row + r, .rows = 1, .k = block.k + k, .cols = cols};
      const TileValues values = job.source.load(part, buffer).values;
      for (int64_t c = 0; c < cols; ++c) {
        const float x = values(0, c);
        for (int i = 0; i < 2; ++i) {
          const float q = codec.decode(codec.encode(x * e8m0_multiplier(code[i])));
          const double off = static_cast<double>(x) - static_cast<double>(q) * e8m0_value(code[i]);
          error[i] += off * off;
        }
      }
    }
  }
  const uint32_t chosen = error[1] < error[0] ? code[1] : code[0];
  return {.decode = e8m0_value(chosen), .multiplier = e8m0_multiplier(chosen)};
}

}  // namespace ng::cpu
