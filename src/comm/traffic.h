// How many bytes a step sends, before it is run: what transports count equals this. Payload is
// (N-1)/N · Σ (gradient bytes + weight bytes) a rank: every rank sends its gradient of what others
// own, and what it owns and has updated to all others. [distributed.md §2; errata-2, 38]
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "comm/partition.h"
#include "comm/traffic_kind.h"
#include "format/operand.h"

namespace ng {

/// A parameter as ranks send it.
struct SentTensor {
  MatrixSize size;
  Operand gradient, weight;
  bool counts_saturation = false;  ///< of its gradient's codes, over all ranks
};

/// Bytes of one tensor's elements as they travel: rows are packed one by one.
[[nodiscard]] uint64_t payload_bytes(const Operand& cast, const MatrixSize& size);

/// Bytes of the scales of its blocks that travel with them: one of the whole tensor is agreed upon.
[[nodiscard]] uint64_t block_scale_bytes(const Operand& cast, const MatrixSize& size);

/// What each rank sends in a step, by rank and kind. `activations` and `files` are 0. `control` is
/// the amax of each tensor that has one scale for all of it, and the counts of saturated codes.
[[nodiscard]] std::vector<BytesByTraffic> traffic_by_rank(const Partition& partition,
                                                          std::span<const SentTensor> tensors);

/// Gradient and weight bytes that a rank sends in a step on average: (ranks-1)/ranks · Σ.
struct MeanPayload {
  double gradients = 0, weights = 0;
  [[nodiscard]] double total() const { return gradients + weights; }
};
[[nodiscard]] MeanPayload mean_payload(std::span<const SentTensor> tensors, int ranks);

/// The same tensors, all gradients and weights in these formats: what narrow ones are held against.
[[nodiscard]] std::vector<SentTensor> all_sent_as(std::span<const SentTensor> tensors,
                                                  std::string_view gradient,
                                                  std::string_view weight);

/// The same tensors, where a gradient or weight goes in 16 bits or more sent as that baseline sends
/// it: narrowing alone is compared. "47 to 49 % less" of FP8-LM is this against BF16 + BF16, where
/// what stays wide goes in FP32.
[[nodiscard]] std::vector<SentTensor> wide_sent_as(std::span<const SentTensor> tensors,
                                                   std::string_view gradient,
                                                   std::string_view weight);

/// Both baselines, by their formats. "63 to 65 % less" of FP8-LM is against the first.
struct Baseline {
  std::string_view name, gradient, weight;
};
inline constexpr Baseline kBaselines[] = {{"fp32+bf16", "fp32", "bf16"},
                                          {"bf16+bf16", "bf16", "bf16"}};

/// Bytes per element of a half block's input under tensor and sequence parallelism, over its
/// collectives: x is gathered in forward and again in backward, its gradient is reduced and
/// scattered; `five` counts those of the output, too, which the published 34 % leave out.
struct ActivationBytes {
  double three = 0, five = 0;
};
[[nodiscard]] ActivationBytes activation_bytes(const Operand& gathered, const Operand& reduced);

}  // namespace ng
