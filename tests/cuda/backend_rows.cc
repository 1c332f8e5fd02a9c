// What stands in the place of src/run/backend_rows.cc in tests' programs: the emulated card too.
#include "run/backend_rows.h"
#include "backend/cpu/cpu_backend.h"
#include "backend/cuda/cuda_backend.h"
#include "backend/ref/ref_backend.h"
#include "base/sanitized_testing.h"

namespace ng {

// Memory is managed where a sanitizer sees where tensors end.
std::span<const BackendRow> backend_rows() {
  static constexpr BackendRow kRows[] = {
      {"ref", [](const BackendWish& wish) { return make_ref_backend(wish.threads); }},
      {"cpu", [](const BackendWish& wish) { return make_cpu_backend(wish.threads); }},
      {"cuda-emulated",
       [](const BackendWish& wish) {
         return make_emulated_cuda_backend(
             {.thread_order = wish.thread_order, .is_managed = kSanitized});
       },
       true},
      {"cuda-emulated-units",
       [](const BackendWish& wish) {
         return make_emulated_cuda_backend(
             {.thread_order = wish.thread_order, .is_managed = kSanitized, .has_units = true});
       },
       true},
      {"cuda-emulated-units-100",
       [](const BackendWish& wish) {
         return make_emulated_cuda_backend({.thread_order = wish.thread_order,
                                            .is_managed = kSanitized,
                                            .has_units = true,
                                            .sm = 100});
       },
       true}};
  return kRows;
}

}  // namespace ng
