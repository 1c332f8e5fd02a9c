// One gradient tensor over all ranks: each encodes its own, every piece travels to its owner, who
// adds exactly; then the owner's update takes the mean in FP32. [recipes.md §4.2; errata-2, 27-33]
// What `reduce` and studies use: training sends all tensors meanwhile (train/gradient_stream.h).
//
// In the order of a step: FindAmax and Comm::max, of all tensors at once; StoreGradient with that
// amax, where ranks share a scale; reduce_gradient.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "backend/backend.h"
#include "comm/comm.h"
#include "comm/gradient_pieces.h"
#include "recipe/settings.h"

namespace ng {

/// How one tensor travels.
struct GradientWire {
  Operand cast;
  GradientRecipe::Reduce reduce = GradientRecipe::Reduce::fp32;
  float encode_scale = 1;  ///< S: shared_encode_scale where ranks_share_scale(cast), else 1
};

/// A stored tensor, copied to host memory with its scales.
class HostGradient {
 public:
  HostGradient(const Backend& backend, const ConstView& x);
  HostGradient(const HostGradient&) = delete;
  HostGradient& operator=(const HostGradient&) = delete;
  [[nodiscard]] const ConstView& view() const { return view_; }

 private:
  std::vector<std::byte> elements_, scales_;
  float level_ = 1;
  ConstView view_;
};

/// What becomes of a rank's own pieces, one after another, row by row.
struct ReducedGradient {
  std::vector<float> sum;  ///< over ranks, in units of codes where they share a scale
  /// fl(sum·fl(1/fl(N·S))). NaN where the encode scale is: the step is skipped.
  std::vector<float> mean;
  uint64_t largest =
      0;  ///< elements of `sum` that are the largest of the format: `wire` counts them
};

/// All ranks, with the same pieces. `mine`: this rank's gradient as it is stored, in host memory.
[[nodiscard]] ReducedGradient reduce_gradient(Comm& comm, const ConstView& mine,
                                              const GradientWire& wire,
                                              std::span<const Piece> pieces);

/// Largest magnitude; NaN where one is not finite.
[[nodiscard]] float amax_of(std::span<const float> values);

}  // namespace ng
