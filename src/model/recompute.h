// What the backward pass makes again instead of taking it from the forward pass.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>
#include <utility>

namespace ng {

enum class RecomputePolicy : uint8_t {
  none,    ///< what GEMMs alone read of inputs of layers and of weights is kept as operands, where
           ///< those are narrow
  inputs,  ///< inputs, outputs of norms and activations, are made again, and operands of weights
  block    ///< whole blocks are run a second time
};

/// As `train.recompute` says them.
inline constexpr std::array<std::pair<std::string_view, RecomputePolicy>, 3> kRecomputeWords = {
    {{"none", RecomputePolicy::none},
     {"inputs", RecomputePolicy::inputs},
     {"block", RecomputePolicy::block}}};

}  // namespace ng
