// The matrix units of a card of this machine, by the cuBLASLt that is found when they are asked
// for.
#pragma once

#include <memory>

#include "backend/cuda/units.h"
#include "backend/cuda/words.h"

namespace ng::cuda {

/// On that stream, whichever it becomes. Null: no cuBLASLt of this CUDA is found, or the program
/// was built without its header.
[[nodiscard]] std::unique_ptr<Units> make_card_units(const CardStream& stream, const Card& card);

}  // namespace ng::cuda
