// Noise on a weight as kernels to be timed: those of a backend, and what they replace.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "backend/backend.h"
#include "backend/cpu/workspace.h"
#include "speed/timed_kernel.h"
#include "tensor/rows.h"

namespace ng {

/// "noise gaussws", "noise diffq", "noise nipq": ŵ in BF16 from a weight in FP32; the same with
/// "backward": gradients of bit-widths from a gradient in BF16. Those that are wanted, by their
/// names. Backend and weight, which lies in its memory without gaps, must outlive them.
[[nodiscard]] std::vector<TimedKernel> noise_kernels(
    Backend& backend, const ConstView& weight,
    const std::function<bool(const std::string& name)>& is_wanted);

/// "noise box-muller": what gaussws does, with normal numbers by Box and Muller, rounded, in the
/// same single pass on the CPU. Workspace and weight must outlive it.
[[nodiscard]] TimedKernel box_muller_kernel(cpu::Workspace& workspace, Rows<const float> weight);

}  // namespace ng
