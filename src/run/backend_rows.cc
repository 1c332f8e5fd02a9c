#include "run/backend_rows.h"

#include "backend/cpu/cpu_backend.h"
#include "backend/ref/ref_backend.h"

namespace ng {

std::span<const BackendRow> backend_rows() {
  static constexpr BackendRow kRows[] = {{"ref", make_ref_backend}, {"cpu", make_cpu_backend}};
  return kRows;
}

}  // namespace ng
