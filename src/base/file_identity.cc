#include "base/file_identity.h"

#include <sys/stat.h>

#include <cerrno>

#include "base/file_calls.h"

namespace ng {

FileIdentity file_identity(const std::string& path) {
  struct stat info {};
  if (::stat(path.c_str(), &info) < 0) fail_on(path, "look at", errno);
  return {.device = info.st_dev, .number = info.st_ino};
}

}  // namespace ng
