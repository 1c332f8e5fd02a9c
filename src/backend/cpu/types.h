// Which types of tensors an operation of the cpu backend takes. Asked once per operation; views
// without rows do not count.
#pragma once

#include <initializer_list>
#include <string_view>

#include "backend/backend.h"

namespace ng::cpu {

using Views = std::initializer_list<ConstView>;

/// Throws Unsupported unless all are FP32.
void require_fp32(std::string_view operation, Views views);
/// Throws Unsupported unless each is FP32 or BF16.
void require_values(std::string_view operation, Views views);
/// Throws Unsupported unless all are FP32 or all are BF16.
void require_one_type(std::string_view operation, Views views);

}  // namespace ng::cpu
