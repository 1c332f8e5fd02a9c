// What of NVIDIA's is on this machine. Libraries are looked for when they are asked for: nothing is
// linked to them.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

namespace ng {

struct CudaDevice {
  std::string name;
  int sm = 0;  ///< 90: compute capability 9.0
  size_t memory_bytes = 0;
};

struct CudaMachine {
  std::optional<std::string> driver;  ///< the CUDA that it serves, "13.0"; none: no driver
  std::vector<CudaDevice> devices;
  std::optional<std::string> cublaslt;  ///< its version, "13.1"; none: not found
  std::optional<std::string> nccl;      ///< the same
};

[[nodiscard]] CudaMachine cuda_machine();

}  // namespace ng
