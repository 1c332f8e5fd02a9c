// The scale of values that share one, as ref/operand_scale.h has it: by the largest magnitude, by
// another statistic, or that of several with the smallest error. A warp decides for a block; what
// goes over its values in their order one lane does, or each lane for a scale of its own.
// [formats.md §3.2, §4.1, §5, §6; linear.md 6]
#pragma once

#include "backend/cuda/kernels/mx_block.h"
#include "backend/cuda/kernels/operand.h"
#include "backend/cuda/kernels/operand_groups.h"
#include "format/block_statistic.h"

namespace ng::cuda {

constexpr uint32_t kE4m3Sign = 0x80;  ///< of scales: their block has the second element of a list

/// The values of an operand before they are scaled.
struct OperandValues {
  OperandGroups from;
  const float* strip = nullptr;  ///< some rows of them in FP32; null: the source has them
  int64_t strip_row = 0;         ///< the first of those rows

  [[nodiscard]] __device__ float operator()(int64_t row, int64_t k) const {
    if (strip != nullptr) return strip[(row - strip_row) * from.k_padded + k];
    if (k >= from.k) return 0;
    return from.is_turned ? from.source(k, row) : from.source(row, k);
  }
  /// Of the element's place in the source.
  [[nodiscard]] __device__ Rounder rounder(const ElementCast& cast, int64_t row, int64_t k) const {
    return rounder_of(cast, from.draw_row(row, k), from.draw_col(row, k), from.whole_cols);
  }
  /// What is drawn there.
  [[nodiscard]] __device__ uint32_t random(const ElementCast& cast, int64_t row, int64_t k) const {
    return random_of(cast, from.draw_row(row, k), from.draw_col(row, k), from.whole_cols);
  }
};

/// Values that share a scale: rows [row, row_end) × [k, k_end) along the reduction.
struct Region {
  int64_t row, row_end, k, k_end;
  [[nodiscard]] NG_HD int64_t width() const { return k_end - k; }
  [[nodiscard]] NG_HD int64_t size() const { return (row_end - row) * width(); }
};

/// A scale that the values of a region may take.
struct RegionScale {
  float multiplier = 1;
  float divisor = 0;      ///< in place of the multiplier where it is not 0
  float stored = 1;       ///< what decoded elements are multiplied by
  uint32_t code = 0;      ///< of `stored`, where it has one
  bool clamps = false;    ///< to ± the largest element before rounding [formats.md §4.1, step 5]
  bool is_other = false;  ///< codes are those of the second element of a list
  bool is_zero = false;   ///< codes are signed zeros
  bool is_nan = false;    ///< codes are zero
};

__device__ inline void put_region_scale(const BlockScales& scales, int64_t at,
                                        const RegionScale& by) {
  if (scales.kind == ScaleKind::e8m0 || scales.kind == ScaleKind::e4m3)
    scales.data[at] = static_cast<uint8_t>(by.code);
  else
    reinterpret_cast<float*>(scales.data)[at] = by.stored;
}

/// By what a region gets its scale.
struct RegionRule {
  Operand cast;  ///< of its elements nothing is read
  ElementRange range;
  ElementCast element;
  OtherElement other{};
  Statistic statistic;
  CardScales second{};  ///< level

  [[nodiscard]] __device__ TwoLevelScale levels(const Region& region) const {
    if (second.data == nullptr) return {};
    const CardScale* scale = second.at(region.row, region.k);
    return {scale->decode, scale->multiplier};
  }
  /// What the encoder is given of a value.
  [[nodiscard]] __device__ float scaled(const RegionScale& by, float z) const {
    if (by.is_zero) return std::copysign(0.0f, z);
    const float y = z * cast.prescale;
    return by.divisor != 0 ? y / by.divisor : y * by.multiplier;
  }
  [[nodiscard]] __device__ uint32_t code(const RegionScale& by, float y,
                                         const Rounder& rounder) const {
    if (by.is_other) return other.code_of(other.rounded(y, rounder));
    if (by.clamps) y = y > range.max ? range.max : y < -range.max ? -range.max : y;
    return encode_element(element, y, rounder);
  }

  /// The element without its scale, whose sign it has.
  [[nodiscard]] __device__ float decoded(const RegionScale& by, uint32_t code) const {
    return by.is_other ? -other.value_of(code) : decode_element(element, code);
  }

  [[nodiscard]] __device__ bool is_zero(const RegionScale& by, uint32_t code) const {
    return by.is_other ? decoded(by, code) == 0 : is_zero_code(element, code);
  }

  /// Of a finite amax > 0 or 0; else of a scale of blocks in FP32, which is then 1.
  [[nodiscard]] __device__ RegionScale of_amax(const Region& region, float amax, bool is_finite,
                                               float fit) const {
    const bool power = cast.scale == ScaleKind::pow2;
    if (cast.scale == ScaleKind::e4m3) {
      const TwoLevelScale two_level = levels(region);
      const float refit = first_fit(cast, range.max) / fit;
      uint32_t code = e4m3_block_code(cast.scale_rule, amax, two_level, refit);
      if (code == 0 && cast.rounding == Rounding::eden) code = kE4m3One;
      return {.multiplier = e4m3_multiplier(code, two_level),
              .stored = decode_float(e4m3_grid(), code),
              .code = code,
              .clamps = true,
              .is_zero = code == 0};
    }
    if (element.kind == CodeKind::integer) {
      const float scale = integer_scale_of(is_finite ? amax : 0.0f, fit, power);
      return {.divisor = scale, .stored = scale};
    }
    const float encode = encode_scale_of(is_finite ? amax : 0.0f, fit, power);
    return {.multiplier = encode, .stored = 1.0f / encode};
  }
  [[nodiscard]] __device__ RegionScale of_e8m0(uint32_t code) const {
    return {.multiplier = code == kE8m0NanCode ? 1.0f : e8m0_multiplier(code),
            .stored = e8m0_value(code),
            .code = code,
            .is_nan = code == kE8m0NanCode};
  }

  /// How far decoded values are from those of the region, as `select` has it: FP64, in the order of
  /// the untransposed source, its rows first.
  [[nodiscard]] __device__ double error(const OperandValues& values, const Region& region,
                                        const RegionScale& by) const {
    double sum = 0;
    const float tensor = levels(region).tensor;
    const bool is_turned = values.from.is_turned;
    const int64_t inner = is_turned ? region.row_end - region.row : region.width();
    for (int64_t n = 0; n < region.size(); ++n) {
      const int64_t row = region.row + (is_turned ? n % inner : n / inner);
      const int64_t k = region.k + (is_turned ? n / inner : n % inner);
      const float x = values(row, k);
      const uint32_t made = code(by, scaled(by, x), values.rounder(element, row, k));
      const float q = decoded(by, made) * by.stored * tensor;
      const double off = std::fabs(double{q} - double{x});
      if (cast.select == Select::max)
        sum = off > sum ? off : sum;
      else
        sum += cast.select == Select::mse ? off * off : off;
    }
    return sum;
  }

  /// Σ (x - Q(x))² of an E8M0 block under one scale code, FP64, ascending, rounding to nearest.
  [[nodiscard]] __device__ double squared_error(const OperandValues& values, const Region& region,
                                                uint32_t code) const {
    ElementCast saturates = element;
    saturates.overflow = OverflowRule::saturate;
    double sum = 0;
    for (int64_t n = 0; n < region.size(); ++n) {
      const float x = values(region.row + n / region.width(), region.k + n % region.width());
      const float q =
          decode_element(element, encode_element(saturates, x * e8m0_multiplier(code), {}));
      const double off = static_cast<double>(x) - static_cast<double>(q) * e8m0_value(code);
      sum += off * off;
    }
    return sum;
  }

  /// In every lane; of finite values that the statistic is of.
  [[nodiscard]] __device__ float other_statistic(const OperandValues& values, const Region& region,
                                                 float amax, int lane) const {
    float t = 0;
    if (lane == 0)
      t = scale_statistic(statistic, range.max, amax, region.size(), [&](const auto& use) {
        for (int64_t n = 0; n < region.size(); ++n)
          use(n, values(region.row + n / region.width(), region.k + n % region.width()));
      });
    return __shfl_sync(~0u, t, 0);
  }

  [[nodiscard]] __device__ RegionScale e8m0(const OperandValues& values, const Region& region,
                                            float amax, bool is_finite, int lane) const {
    if (!is_finite) return of_e8m0(kE8m0NanCode);
    if (amax == 0) return of_e8m0(0);
    if (statistic.of != ScaleOf::amax) {
      const float t = other_statistic(values, region, amax, lane);
      return of_e8m0(t > 0 ? e8m0_code(e8m0_exponent(cast.scale_rule, t)) : 0);
    }
    const int e = e8m0_exponent(cast.scale_rule, amax, range);
    if (cast.scale_rule != ScaleRule::mse) return of_e8m0(e8m0_code(e));
    const uint32_t code = e8m0_code(e), next = e8m0_code(e + 1);
    const double off = lane < 2 ? squared_error(values, region, lane == 0 ? code : next) : 0;
    return of_e8m0(__shfl_sync(~0u, off, 1) < __shfl_sync(~0u, off, 0) ? next : code);
  }

  /// That of the cast's list of fits or elements; the latter share the scale, which is negative
  /// where the second is taken.
  [[nodiscard]] __device__ RegionScale listed(const Region& region, float amax, bool is_finite,
                                              int i) const {
    if (cast.other == nullptr) return of_amax(region, amax, is_finite, cast.fit[i]);
    RegionScale by = of_amax(region, amax, is_finite, first_fit(cast, range.max));
    if (i == 0) return by;
    by.is_other = true;
    by.stored = -by.stored;
    by.code |= kE4m3Sign;
    return by;
  }

  /// Of the cast's fits or elements the one with the smallest error, the first of equals: a lane
  /// tries each.
  [[nodiscard]] __device__ RegionScale best(const OperandValues& values, const Region& region,
                                            float amax, bool is_finite, int lane) const {
    const int count = choices_of(cast);
    if (count < 2) return of_amax(region, amax, is_finite, first_fit(cast, range.max));
    const double off =
        lane < count ? error(values, region, listed(region, amax, is_finite, lane)) : 0;
    int taken = 0;
    double least = __shfl_sync(~0u, off, 0);
    for (int i = 1; i < count; ++i) {
      const double next = __shfl_sync(~0u, off, i);
      if (!(next < least)) continue;
      least = next;
      taken = i;
    }
    return listed(region, amax, is_finite, taken);
  }

  /// In every lane. `whole`: amax of a scale for all of an operand, which is that of no less than
  /// the values; 0: as they say.
  [[nodiscard]] __device__ RegionScale choose(const OperandValues& values, const Region& region,
                                              float whole, int lane) const {
    uint32_t largest = float_bits(whole), beyond = largest >= kFloatInf ? 1u : 0u;
    // That for E4M3 scales does not say whether there is NaN.
    const bool is_known = largest != 0 && cast.scale != ScaleKind::e4m3;
    for (int64_t n = lane; n < region.size() && !is_known; n += kWarp) {
      const uint32_t magnitude =
          float_bits(values(region.row + n / region.width(), region.k + n % region.width())) &
          0x7FFFFFFFu;
      if (magnitude >= kFloatInf) beyond = 1;
      if (magnitude <= kFloatInf && magnitude > largest) largest = magnitude;
    }
    const float amax = float_of_bits(largest_bits_of_warp(largest));
    const bool is_finite = largest_bits_of_warp(beyond) == 0;
    if (cast.scale == ScaleKind::e8m0) return e8m0(values, region, amax, is_finite, lane);
    if (statistic.of == ScaleOf::mean_abs && is_finite && statistic.is_of(amax)) {
      const float scale = other_statistic(values, region, amax, lane);
      return {.divisor = scale, .stored = scale};
    }
    return best(values, region, amax, is_finite, lane);
  }
};

}  // namespace ng::cuda
