// Files that `reduce` reads, and wires that gradients travel by.
#pragma once

#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

#include "io/safetensors.h"

namespace ng {

inline void write_gradients(const std::string& path, const std::vector<int64_t>& shape,
                            const std::vector<float>& g) {
  io::write_safetensors(path, {{"grad", "F32", shape, g.data()}});
}

/// Gradients of so many ranks, (13, 40) each.
inline void write_gradients(const std::string& path, int64_t ranks) {
  std::vector<float> g(static_cast<size_t>(ranks * 13 * 40));
  for (size_t i = 0; i < g.size(); ++i) {
    const auto x = static_cast<float>(i % 1009);
    g[i] = std::sin(x * x) * std::exp2(std::fmod(x, 13.0f) - 9);
  }
  write_gradients(path, {ranks, 13, 40}, g);
}

/// What a wire can be, one of each.
inline const std::string kWires[] = {
    "{ communicate = { format = 'fp8_e4m3', scale = 'pow2' }, reduce = 'wire' }",
    "{ communicate = { format = 'fp8_e5m2', rounding = 'stochastic' } }",
    "{ communicate = { format = 'mxfp4', rounding = 'stochastic' } }",
    "{ communicate = 'nvfp4' }",
    "{ communicate = 'bf16' }",
    "{}"};

inline std::string recipe_of_wire(const std::string& wire) {
  return "name = 'r'\ngradient = " + wire + "\n";
}

}  // namespace ng
