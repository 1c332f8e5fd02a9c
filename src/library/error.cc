#include <narrowgauge/error.h>
#include <narrowgauge/version.h>

#include <utility>

#include "base/version.h"
#include "library/access.h"

namespace narrowgauge {

Error::Error(std::string problem, std::string remedy)
    : std::runtime_error(remedy.empty() ? problem : problem + ": " + remedy),
      problem_(std::move(problem)),
      remedy_(std::move(remedy)) {}

Error::~Error() = default;

std::string_view version() noexcept { return ng::version(); }

void require(bool condition, const std::string& problem, const std::string& remedy) {
  if (!condition) throw Error(problem, remedy);
}

}  // namespace narrowgauge
