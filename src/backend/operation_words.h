// The words that operations share: what their time counts as, in what they compute, what happens to
// outputs.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <string>
#include <string_view>

#include "format/table.h"

namespace ng {

/// What the time of an operation counts as.
enum class TimeKind : uint8_t {
  gemm_fprop,
  gemm_dgrad,
  gemm_wgrad,
  quantize,
  weight_noise,
  attention,
  norm_activation,
  head_and_loss,  ///< the head's GEMMs too; its casts are quantize
  embedding,
  optimizer,
  elementwise,
  communication,  ///< sums over ranks, and waiting for messages
};
constexpr size_t kTimeKinds = 12;
[[nodiscard]] std::string_view name_of(TimeKind kind);

/// Seconds per kind of operation.
using TimeByKind = std::array<double, kTimeKinds>;
[[nodiscard]] inline double total_seconds(const TimeByKind& seconds) {
  return std::accumulate(seconds.begin(), seconds.end(), 0.0);
}

/// Numbers of everything that is not a linear GEMM.
enum class Compute : uint8_t { fp32, bf16 };
/// As what activations are stored then.
[[nodiscard]] inline const ElementFormat& element_of(Compute compute) {
  return compute == Compute::bf16 ? bf16_format() : fp32_format();
}

/// The largest |value| of an output as it is stored, found while it is written: what
/// FindOperandAmax has of it for operands without a transform. In backend memory; what was there
/// before is not read.
struct StoredAmax {
  float value = 0;        ///< NaN aside
  float or_infinite = 0;  ///< the same, infinite where one is NaN
};

/// In which order the products of a GEMM are summed. [backend/ref/gemm.h]
enum class SumOrder : uint8_t {
  chain,   ///< one chain along K, or by blocks where both operands have scales of blocks
  tile32,  ///< as matrix tiles of BF16 sum: by 32 along K
};
[[nodiscard]] std::string_view name_of(SumOrder sum);

/// A kind of product that a device's matrix units may have.
struct ProductMode {
  std::string_view name;
  std::string refusal;  ///< why they have not; empty: they have
};

/// By what they are added, where a backend does.
enum class SumUnits : uint8_t {
  defined,  ///< in that order: the bits of `ref`
  fp32,     ///< in FP32, in an order of its own
  fp8,      ///< the same, with as few bits as Hopper's units for FP8 [backend/sum_bound.h]
};

/// What happens to an output that already holds values.
enum class Into : uint8_t {
  overwrite,
  add,    ///< y += finished result (one FP32 addition per element, then the rounding of y)
  carry,  ///< GEMM only: the accumulation chain starts from y; FP32-family operands and y only
};

}  // namespace ng
