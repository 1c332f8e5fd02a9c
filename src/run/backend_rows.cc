#include "run/backend_rows.h"

#include "backend/cpu/cpu_backend.h"
#include "backend/cuda/cuda_backend.h"
#include "backend/ref/ref_backend.h"

namespace ng {

std::span<const BackendRow> backend_rows() {
  static constexpr BackendRow kRows[] = {
      {"ref", [](const BackendWish& wish) { return make_ref_backend(wish.threads); }},
      {"cpu", [](const BackendWish& wish) { return make_cpu_backend(wish.threads); }},
#ifdef NG_CUDA_CARDS  // the program, where nvcc was
      {"cuda", [](const BackendWish& wish) { return make_cuda_backend(false, wish.device); }, false,
       NG_CUDA_CARDS},
      {"cuda-exact", [](const BackendWish& wish) { return make_cuda_backend(true, wish.device); },
       false, NG_CUDA_CARDS},
#endif
  };
  return kRows;
}

}  // namespace ng
