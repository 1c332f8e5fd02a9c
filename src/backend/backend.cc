#include "backend/backend.h"

#include <fmt/format.h>

#include "base/machine.h"

namespace ng {

std::string machine_text(const Backend& backend, Threads threads) {
  const std::string host = machine_text(threads), device = backend.device_name();
  return device.empty() ? host : fmt::format("{} in {}", device, host);
}

}  // namespace ng
