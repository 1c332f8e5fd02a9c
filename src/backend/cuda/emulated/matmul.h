// cuBLASLt's product on the emulated device: its rules, and sums of one FP32 chain by ascending k.
// The order of a card's sums is its own.
#pragma once

#include "backend/cuda/emulated/device.h"
#include "backend/cuda/matmul.h"

namespace ng::cuda::emulated {

/// Throws Fault where the card's library refuses.
void matmul(Device& device, const Matmul& product);

}  // namespace ng::cuda::emulated
