// What stands in the place of src/run/backend_rows.cc in tests' programs: the emulated card too.
#include "run/backend_rows.h"
#include "backend/cpu/cpu_backend.h"
#include "backend/cuda/cuda_backend.h"
#include "backend/ref/ref_backend.h"

namespace ng {

std::span<const BackendRow> backend_rows() {
  static constexpr BackendRow kRows[] = {{"ref", make_ref_backend},
                                         {"cpu", make_cpu_backend},
                                         {"cuda-emulated", make_emulated_cuda_backend}};
  return kRows;
}

}  // namespace ng
