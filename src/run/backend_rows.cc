#include "run/backend_rows.h"

#include "backend/cpu/cpu_backend.h"
#include "backend/cuda/cuda_backend.h"
#include "backend/ref/ref_backend.h"
#include "comm/launch.h"

namespace ng {

std::span<const BackendRow> backend_rows() {
  static constexpr BackendRow kRows[] = {
      {"ref", [](Threads threads, uint64_t /* order */) { return make_ref_backend(threads); }},
      {"cpu", [](Threads threads, uint64_t /* order */) { return make_cpu_backend(threads); }},
#ifdef NG_CUDA_CARDS  // the program, where nvcc was
      {"cuda",
       [](Threads /* its own */, uint64_t /* order */) {
         return make_cuda_backend(false, launch().local_rank);
       },
       false, NG_CUDA_CARDS},
      {"cuda-exact",
       [](Threads /* its own */, uint64_t /* order */) {
         return make_cuda_backend(true, launch().local_rank);
       },
       false, NG_CUDA_CARDS},
#endif
  };
  return kRows;
}

}  // namespace ng
