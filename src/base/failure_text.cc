#include "base/failure_text.h"

#include <new>

#include "base/error.h"

namespace ng {

std::string failure_text(const std::exception& failure) {
  if (dynamic_cast<const Error*>(&failure) != nullptr) return failure.what();
  if (dynamic_cast<const std::bad_alloc*>(&failure) != nullptr) return std::string(kNoMemory);
  return fmt::format("a defect of the program, please report it: {}", failure.what());
}

}  // namespace ng
