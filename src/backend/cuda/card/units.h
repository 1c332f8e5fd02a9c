// The matrix units of a card of this machine, by the cuBLASLt that is found when they are asked
// for.
#pragma once

#include <cuda_runtime.h>

#include <memory>

#include "backend/cuda/units.h"

namespace ng::cuda {

/// Null: no cuBLASLt of this CUDA is found, or the program was built without its header.
[[nodiscard]] std::unique_ptr<Units> make_card_units(cudaStream_t stream, const Card& card);

}  // namespace ng::cuda
