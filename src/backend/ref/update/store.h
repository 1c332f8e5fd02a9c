// Values into tensors as they are stored, and back: whole tensors, row by row.
#pragma once

#include <span>
#include <vector>

#include "backend/operations.h"

namespace ng::ref {

/// All values of a tensor; none where it has no rows.
[[nodiscard]] std::vector<float> values_of(const ConstView& x);

/// Rounds `values` into y by its cast: the one way of quantizing (ref/operand.h), whose codes and
/// scales are stored. `encode_scale` is that of the whole tensor; 0: scales come from the values,
/// and from `amax` where one is for all of a tensor of which these are a part.
void store(const Stored& y, std::span<const float> values, const RandomKey& key = {},
           float encode_scale = 0, float amax = 0);

/// As a weight: the one scale of a whole tensor that is a power of two stays while it fits.
/// `amax`: as for store(). [errata-2, 14]
void store_weight(const Stored& y, std::span<const float> values, const RandomKey& key = {},
                  float amax = 0);

/// The scale by which `store_weight` would encode `values`; 1 where nothing is scaled. Only of
/// tensors without scales or with one power of two.
[[nodiscard]] float encode_scale_of(const Stored& y, std::span<const float> values, float amax = 0);

void perform(const Store& op);
void perform(const FindAmax& op);
void perform(const StoreGradient& op);
void perform(const MoveAutoScale& op);

}  // namespace ng::ref
