// Flags by which a command on a tensor of a file names the draws of training.
#pragma once

#include <CLI/App.hpp>
#include <cstdint>
#include <string>

namespace ng::cli {

/// --step N, from 0: of random keys.
inline void add_step(CLI::App& app, uint32_t& step, const std::string& of_what) {
  app.add_option("--step", step, of_what)
      ->capture_default_str()
      ->check(CLI::Range(int64_t{0}, (int64_t{1} << 32) - 1));
}

/// --tensor-id N: which tensor of the model's table draws.
inline void add_tensor_id(CLI::App& app, uint32_t& tensor) {
  app.add_option("--tensor-id", tensor, "of random draws")
      ->capture_default_str()
      ->check(CLI::Range(int64_t{0}, (int64_t{1} << 20) - 1));
}

}  // namespace ng::cli
