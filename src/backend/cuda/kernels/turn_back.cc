// What a product gave in the basis of a Hadamard transform, back in that of the model: the bits of
// `ref`. [linear.md 3]
#include "backend/cuda/kernels/hadamard.h"
#include "backend/cuda/kernels/perform.h"
#include "backend/cuda/kernels/values.h"
#include "backend/gemm_checks.h"

namespace ng::cuda {
namespace {

/// A group of a row by a warp.
struct TurnBackGroups {
  Target y;
  Source x;
  CardHadamard hadamard;
  Into into;
  bool is_rounded;  ///< to BF16, whatever y is stored as

  [[nodiscard]] NG_HD int group() const { return hadamard.size > kWarp ? hadamard.size : kWarp; }
  [[nodiscard]] NG_HD int64_t groups() const { return (x.cols + group() - 1) / group(); }

  __device__ void operator()(int64_t unit, int lane) const {
    const int64_t row = unit / groups(), first = unit % groups() * group();
    float values[kMostHadamardBlocks];
    for (int b = 0; b < kMostHadamardBlocks; ++b) {
      const int64_t k = first + b * kWarp + lane;
      values[b] = b * kWarp < group() && k < x.cols ? x(row, k) : 0.0f;
    }
    butterflies_of_warp(values, lane, hadamard.size);
    for (int b = 0; b < kMostHadamardBlocks; ++b) {
      const int64_t k = first + b * kWarp + lane;
      if (b * kWarp >= group() || k >= y.cols) continue;
      float t = values[b] * hadamard_back_factor(hadamard.size);
      if (hadamard.is_negative(b, lane)) t = -t;
      if (into == Into::add) t = y(row, k) + t;
      y.put(row, k, is_rounded ? round_to_bf16(t) : t);
    }
  }
};

}  // namespace

void perform(Stream stream, const TurnBack& op) {
  check_turn_back(op);
  const TurnBackGroups groups{.y = target_of(TurnBack::kName, op.y),
                              .x = source_of(TurnBack::kName, op.x),
                              .hadamard = card_hadamard(stream, op.hadamard),
                              .into = op.into,
                              .is_rounded = op.round == Compute::bf16};
  for_each_row(stream, op.y.rows * groups.groups(), groups);
}

}  // namespace ng::cuda
