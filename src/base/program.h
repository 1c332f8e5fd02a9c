// Runs another program and takes what it prints.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace ng {

struct ProgramResult {
  bool found = false;  ///< the program is there and could be started
  int exit_code = 0;   ///< 128 + signal where a signal ended it
  std::string output;
};

/// Runs command[0], found along PATH, in the folder "/" without input and with its errors dropped.
/// Throws Error where it prints more than `max_bytes`.
[[nodiscard]] ProgramResult run_program(const std::vector<std::string>& command, size_t max_bytes);

}  // namespace ng
