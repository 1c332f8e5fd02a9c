#include "base/machine.h"

#include <fmt/format.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>

#include "base/isa.h"
#include "base/units.h"

namespace ng {
namespace {

// The value of "key : value" in one of the system's files; empty: absent.
std::string field(const char* path, const std::string& key) {
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    if (!line.starts_with(key)) continue;
    const size_t colon = line.find(':');
    if (colon == std::string::npos) continue;
    const size_t begin = line.find_first_not_of(" \t", colon + 1);
    return begin == std::string::npos ? "" : line.substr(begin);
  }
  return "";
}

}  // namespace

std::string cpu_model() { return field("/proc/cpuinfo", "model name"); }

std::string machine_text(Threads threads) {
  return fmt::format("{}, {}, {}", cpu_model(), name_of(current_isa()),
                     counted(threads.count, "thread"));
}

MachineMemory machine_memory() {
  const auto pages = static_cast<size_t>(std::max(0L, ::sysconf(_SC_PHYS_PAGES)));
  const auto page = static_cast<size_t>(std::max(0L, ::sysconf(_SC_PAGESIZE)));
  const std::string available = field("/proc/meminfo", "MemAvailable");
  return {pages * page, std::strtoull(available.c_str(), nullptr, 10) * 1024};
}

size_t peak_resident_bytes() {
  rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  return static_cast<size_t>(usage.ru_maxrss) * 1024;
}

}  // namespace ng
