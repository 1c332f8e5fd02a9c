#include "run/backend_rows.h"

#include "backend/cpu/cpu_backend.h"
#include "backend/ref/ref_backend.h"

namespace ng {

std::span<const BackendRow> backend_rows() {
  static constexpr BackendRow kRows[] = {
      {"ref", [](Threads threads, uint64_t /* order */) { return make_ref_backend(threads); }},
      {"cpu", [](Threads threads, uint64_t /* order */) { return make_cpu_backend(threads); }}};
  return kRows;
}

}  // namespace ng
