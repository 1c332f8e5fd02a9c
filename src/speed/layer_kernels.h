// What a layer does between its GEMMs, as kernels to be timed.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "backend/backend.h"
#include "speed/timed_kernel.h"

namespace ng {

/// "layer add", "layer norm", "layer gelu", "layer swiglu" and "layer attention" (causal, heads of
/// 64, sequences of up to 256 rows), all but the first with "backward" too, and all with "bf16" for
/// tensors stored so. Those that are wanted, by their names. `values` lie in the backend's memory
/// without gaps, their columns are a multiple of 64; the backend must outlive the kernels.
[[nodiscard]] std::vector<TimedKernel> layer_kernels(
    Backend& backend, const ConstView& values,
    const std::function<bool(const std::string& name)>& is_wanted);

}  // namespace ng
