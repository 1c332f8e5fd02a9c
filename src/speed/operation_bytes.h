// How many bytes an operation moves that is bound by memory.
#pragma once

#include "backend/operations.h"

namespace ng {

/// Of its tensors, each read once and written once, without scales and single rows; 0 of products
/// and attention, which arithmetic bounds, and of what lies where it is read. Reads no tensor's
/// memory.
[[nodiscard]] double streamed_bytes(const Operation& operation);

}  // namespace ng
