// What the backward pass makes again instead of taking it from the forward pass.
#pragma once

#include "base/keys.h"

namespace ng {

enum class RecomputePolicy : uint8_t {
  none,    ///< inputs of layers are kept as operands, where GEMMs alone read them and those are
           ///< narrow
  inputs,  ///< they are made again: outputs of norms and activations
  block    ///< whole blocks are run a second time
};

/// As `train.recompute` says them.
[[nodiscard]] inline Choices<RecomputePolicy> recompute_choices() {
  return {{{"none", RecomputePolicy::none},
           {"inputs", RecomputePolicy::inputs},
           {"block", RecomputePolicy::block}}};
}

}  // namespace ng
