// The largest magnitude of many values.
#pragma once

#include <cstdint>

#include "backend/cuda/words.h"

namespace ng::cuda {

/// *amax = the largest |x|, NaN where one is not finite: what `ref`'s FindAmax has. The same bits
/// in every order, for the largest of bit patterns has none.
void find_amax(Stream stream, const float* x, int64_t count, float* amax);

}  // namespace ng::cuda
