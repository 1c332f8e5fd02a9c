#include "run/backends.h"

#include <fmt/format.h>

#include "base/error.h"
#include "run/backend_rows.h"

namespace ng {

std::vector<std::string_view> backend_names() {
  std::vector<std::string_view> names;
  for (const BackendRow& row : backend_rows()) names.push_back(row.name);
  return names;
}

std::unique_ptr<Backend> make_backend(std::string_view name, Threads threads) {
  for (const BackendRow& row : backend_rows())
    if (row.name == name) return row.make(threads);
  throw Error({.place = "--backend",
               .problem = fmt::format("unknown \"{}\"", name),
               .remedy = fmt::format("{}", fmt::join(backend_names(), " "))});
}

}  // namespace ng
