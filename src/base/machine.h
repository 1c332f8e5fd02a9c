// What the system says of the machine.
#pragma once

#include <cstddef>
#include <string>

#include "base/threads.h"

namespace ng {

/// "AMD EPYC 9B45", or empty where the system does not say.
[[nodiscard]] std::string cpu_model();
/// "AMD EPYC 9B45, avx512bf16, 2 threads"
[[nodiscard]] std::string machine_text(Threads threads);

struct MachineMemory {
  size_t total = 0;      ///< bytes of the machine
  size_t available = 0;  ///< bytes that a process can still take without swapping; 0: unknown
};
[[nodiscard]] MachineMemory machine_memory();

/// Largest resident set of this process so far, bytes.
[[nodiscard]] size_t peak_resident_bytes();

}  // namespace ng
