// What a fuzz target is given, as a file.
#pragma once

#include <sys/mman.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <string>

#include "base/error.h"

namespace ng {

/// read(path of a file in memory that holds `data`); an Error is how it refuses it.
template <class Read>
void read_as_file(const uint8_t* data, size_t size, const Read& read) {
  static const int file = ::memfd_create("fuzz", 0);
  static const std::string path = "/proc/self/fd/" + std::to_string(file);
  if (file < 0 || ::ftruncate(file, 0) < 0) return;
  if (::pwrite(file, data, size, 0) != static_cast<ssize_t>(size)) return;
  try {
    read(path);
  } catch (const Error&) {
    return;
  }
}

}  // namespace ng
