// AdamW on tensors of FP32 alone: contracts in backend/update_operations.h.
#pragma once

#include "backend/cpu/workspace.h"
#include "backend/operations.h"

namespace ng::cpu {

/// AdamW on tensors that are all FP32, the gradient FP32 or BF16: what most parameters need, in one
/// pass and in registers.
[[nodiscard]] bool is_adamw_in_fp32(const Update& op);
void adamw_in_fp32(Workspace& workspace, const Update& op);

}  // namespace ng::cpu
