#include "base/error.h"

#include <new>

namespace ng {
namespace {

std::string join_parts(const Error::Parts& parts) {
  std::string line;
  for (const std::string* part : {&parts.place, &parts.key, &parts.problem, &parts.remedy}) {
    if (part->empty()) continue;
    if (!line.empty()) line += ": ";
    line += *part;
  }
  return line;
}

}  // namespace

Error::Error(Parts parts) : std::runtime_error(join_parts(parts)), parts_(std::move(parts)) {}

std::string failure_text(const std::exception& failure) {
  if (dynamic_cast<const Error*>(&failure) != nullptr) return failure.what();
  if (dynamic_cast<const std::bad_alloc*>(&failure) != nullptr) return std::string(kNoMemory);
  return fmt::format("a defect of the program, please report it: {}", failure.what());
}

namespace detail {

void check_failed(const char* condition, const char* file, int line, const std::string& values) {
  throw InternalError(
      fmt::format("{}:{}: contract broken: {} [{}]", file, line, condition, values));
}

}  // namespace detail
}  // namespace ng
