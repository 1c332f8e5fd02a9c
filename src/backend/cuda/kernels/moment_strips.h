// Moments that an update reads or stores by way of strips: some rows at a time in FP32, side by
// side in the scratch. Those whose blocks have scales wait there for them; coded ones are decoded
// before.
#pragma once

#include "backend/cuda/kernels/coded.h"
#include "backend/cuda/kernels/update_scales.h"

namespace ng::cuda {

[[nodiscard]] bool waits_in_strip(const Stored& moment);
[[nodiscard]] bool has_coded_moment(const Update& op);

/// How many rows strips have, which are whole blocks.
[[nodiscard]] int64_t strip_rows(const Update& op, const Scratch& strips);

/// The tensors with these rows of their moments in the strips, of which that is all there is.
[[nodiscard]] UpdateTensors in_strip(Stream stream, const Update& op, UpdateTensors t,
                                     const Scratch& strips, const RowRange& rows);

/// Moments that wait in the strips into what is stored; second levels of scales were decided.
void store_moments(Stream stream, const Update& op, const UpdateTensors& t, const RowRange& rows,
                   UpdateScratch* scales);

/// use(tensors, rows) of all rows, those of a strip at a time.
template <class Use>
void for_strips(Stream stream, const Update& op, const UpdateTensors& t, const Scratch& strips,
                const Use& use) {
  const int64_t all = op.grad.rows, count = strip_rows(op, strips);
  for (int64_t first = 0; first < all; first += count) {
    const RowRange rows{first, first + count < all ? count : all - first};
    use(in_strip(stream, op, t, strips, rows), rows);
  }
}

}  // namespace ng::cuda
