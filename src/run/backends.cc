#include "run/backends.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/error.h"
#include "base/text.h"
#include "comm/launch.h"
#include "run/backend_rows.h"

namespace ng {
std::vector<std::string_view> backend_names() {
  std::vector<std::string_view> names;
  for (const BackendRow& row : backend_rows()) names.push_back(row.name);
  return names;
}

bool any_has_thread_order() {
  return std::ranges::any_of(backend_rows(), &BackendRow::has_thread_order);
}

std::vector<std::string> cuda_architectures() {
  for (const BackendRow& row : backend_rows())
    if (!row.cards.empty()) return split_at_commas(row.cards);
  return {};
}

std::unique_ptr<Backend> make_backend(std::string_view name, Threads threads, uint64_t thread_order,
                                      std::optional<int> device) {
  for (const BackendRow& row : backend_rows()) {
    if (row.name != name) continue;
    if (thread_order != 0 && !row.has_thread_order)
      throw Error({.place = "--backend",
                   .problem = fmt::format("{} has no order of threads {}", name, thread_order),
                   .remedy = "no --thread-order or cuda.thread_order, or an emulated card"});
    return row.make({threads, thread_order, device.value_or(launch().local_rank)});
  }
  if (name == "cuda")  // known where it is not built, too
    throw Error({.place = "--backend",
                 .problem = "cuda is not built into this program",
                 .remedy = "a build with -DNG_CUDA=ON, where nvcc of CUDA 13 is"});
  throw Error({.place = "--backend",
               .problem = fmt::format("unknown \"{}\"", name),
               .remedy = fmt::format("{}", fmt::join(backend_names(), " "))});
}

}  // namespace ng
