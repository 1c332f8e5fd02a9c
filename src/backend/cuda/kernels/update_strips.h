// Tensors of an update that go by way of the scratch, some rows at a time: moments and weights
// whose blocks have scales, of which the new ones are chosen before anything is rounded, and coded
// moments, which are decoded there.
#pragma once

#include "backend/cuda/kernels/coded.h"
#include "backend/cuda/kernels/update_scales.h"

namespace ng::cuda {

/// Whether a tensor's new values wait for scales of blocks, or codes.
[[nodiscard]] bool waits_in_strip(const Stored& y);
[[nodiscard]] bool has_coded_moment(const Update& op);
[[nodiscard]] bool has_waiting_moment(const Update& op);

/// Where some rows lie in the scratch.
struct Strip {
  RowRange rows;
  float *moment1 = nullptr, *moment2 = nullptr;
  float* weights = nullptr;       ///< what is rounded into the value, in FP32
  RegionScale* scales = nullptr;  ///< of the value's blocks
};

/// Rows of an update, and what stands for its tensors there.
struct UpdateStrip {
  Strip at;
  UpdateTensors t;
  BlockCast by{};  ///< of a value that waits
};

/// Rows that fit into the scratch, whole blocks of all that waits; one such row of blocks at least.
[[nodiscard]] int64_t strip_rows(const Update& op, const Scratch& scratch);

/// With moments decoded that are coded.
[[nodiscard]] UpdateStrip begin_strip(Stream stream, const Update& op, const UpdateTensors& t,
                                      const Scratch& scratch, const RowRange& rows);

/// Scales of the value's blocks, of the strip's weights. `amax`: of a scale for all of the tensor,
/// at least so much it is made of; null: as the weights say.
void choose_value_scales(Stream stream, const Update& op, UpdateStrip& strip, UpdateScratch* scales,
                         const float* amax);

/// What waited, once the rows are updated: scales of the value, and moments.
void end_strip(Stream stream, const Update& op, const UpdateStrip& strip, UpdateScratch* scales);

/// use(strip) of all rows, those that fit at a time.
template <class Use>
void for_strips(Stream stream, const Update& op, const UpdateTensors& t, const Scratch& scratch,
                const Use& use) {
  const int64_t all = op.grad.rows, count = strip_rows(op, scratch);
  for (int64_t first = 0; first < all; first += count) {
    UpdateStrip strip =
        begin_strip(stream, op, t, scratch, {first, first + count < all ? count : all - first});
    use(strip);
  }
}

}  // namespace ng::cuda
