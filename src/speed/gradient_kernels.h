// What ranks do to a gradient on its way, as kernels to be timed.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "backend/backend.h"
#include "speed/timed_kernel.h"

namespace ng {

/// "gradient amax": the largest magnitude of a gradient in FP32; "gradient to fp8_e4m3": its codes,
/// by one power of two that all ranks share; "gradient of 2 ranks exact" and "... ring": the mean
/// of two ranks' codes, as their owner makes it. Those that are wanted, by their names. Backend
/// and gradient, which lies in its memory, must outlive them.
[[nodiscard]] std::vector<TimedKernel> gradient_kernels(
    Backend& backend, const ConstView& gradient,
    const std::function<bool(const std::string& name)>& is_wanted);

}  // namespace ng
