#include "backend/cpu/quantize/exact.h"

#include <algorithm>
#include <cmath>

#include "format/codec.h"

namespace ng::cpu {
namespace {

Rounder rounder_of(const QuantizeJob& job, int64_t row, int64_t k) {
  const Operand& cast = job.spec.cast;
  if (cast.rounding != Rounding::stochastic) return {};
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

}  // namespace

float exact_scaled(const QuantizeJob& job, float value, float multiplier) {
  const float prescaled = value * job.spec.cast.prescale;
  if (job.divides) return prescaled / multiplier;
  if (job.spec.cast.scale == ScaleKind::e4m3 && multiplier == 0) return std::copysign(0.0f, value);
  return prescaled * multiplier;
}

float exact_element(const QuantizeJob& job, const ElementCodec& codec, float y, int64_t row,
                    int64_t k, bool is_other) {
  if (is_other) return job.other.rounded(y, rounder_of(job, row, k));
  if (job.spec.cast.scale == ScaleKind::e4m3 && !std::isnan(y))
    y = std::clamp(y, -job.request.max, job.request.max);
  const OverflowRule overflow = overflow_rule(job.spec.cast.overflow);
  return codec.decode(codec.encode(y, rounder_of(job, row, k), overflow));
}

void exact_encode(const QuantizeJob& job, const Piece& piece, const EncodeTile& tile,
                  const float* decode, OperandStats& stats) {
  const Operand& cast = job.spec.cast;
  const ElementCodec codec(*cast.element, cast.subnormals);
  for (int64_t r = 0; r < tile.rows; ++r) {
    const int64_t scale_row = r / tile.rows_per_multiplier * tile.multiplier_stride;
    for (int64_t c = 0; c < tile.cols; ++c) {
      const float value = tile.values(r, c);
      const bool counted = c < tile.counted_cols;
      stats.nan += counted && std::isnan(value) ? 1 : 0;
      stats.inf += counted && std::isinf(value) ? 1 : 0;
      float result = value;
      const float scale = decode[scale_row + c / tile.block];
      const bool is_other = has_other_element(scale);
      if (std::isnan(scale)) {
        result = 0.0f;
      } else if (!cast.is_fp32()) {
        const float y = exact_scaled(job, value, tile.multipliers[scale_row + c / tile.block]);
        const bool counts = counted && std::isfinite(value);
        stats.saturated += counts && std::fabs(y) > job.request.max ? 1 : 0;
        result = exact_element(job, codec, y, piece.row + r, piece.k + c, is_other);
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

}  // namespace ng::cpu
