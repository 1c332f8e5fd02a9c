// Flags by which a command on a tensor of a file names the draws of training.
#pragma once

#include <cstdint>
#include <string>

#include "cli/flags.h"

namespace ng::cli {

/// --step N, from 0: of random keys.
inline void add_step(Flags flags, uint32_t& step, const std::string& of_what) {
  flags.option("--step", step, of_what).shows_default().range(0, (int64_t{1} << 32) - 1);
}

/// --tensor-id N: which tensor of the model's table draws.
inline void add_tensor_id(Flags flags, uint32_t& tensor) {
  flags.option("--tensor-id", tensor, "of random draws")
      .shows_default()
      .range(0, (int64_t{1} << 20) - 1);
}

}  // namespace ng::cli
