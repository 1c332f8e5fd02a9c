#include "run/backends.h"

#include <string>

#include "backend/cpu/cpu_backend.h"
#include "backend/ref/ref_backend.h"
#include "base/error.h"

namespace ng {
namespace {

struct Row {
  std::string_view name;
  std::unique_ptr<Backend> (*make)(Threads threads);
};

constexpr Row kBackends[] = {{"ref", make_ref_backend}, {"cpu", make_cpu_backend}};

}  // namespace

std::vector<std::string_view> backend_names() {
  std::vector<std::string_view> names;
  for (const Row& row : kBackends) names.push_back(row.name);
  return names;
}

std::unique_ptr<Backend> make_backend(std::string_view name, Threads threads) {
  for (const Row& row : kBackends)
    if (row.name == name) return row.make(threads);
  throw Error({.place = "--backend",
               .problem = fmt::format("unknown \"{}\"", name),
               .remedy = fmt::format("{}", fmt::join(backend_names(), " "))});
}

}  // namespace ng
