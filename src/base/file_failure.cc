#include "base/file_failure.h"

#include <cerrno>
#include <system_error>

#include "base/error.h"

namespace ng {
namespace {

std::string remedy_of(int error) {
  switch (error) {
    case ENOSPC:
    case EDQUOT:
      return "free some space there";
    case EACCES:
    case EPERM:
      return "check its owner and permissions";
    case ENOENT:
      return "check the path";
    case EMFILE:
    case ENFILE:
      return "raise the limit of open files (ulimit -n)";
    default:
      return "";
  }
}

}  // namespace

void fail_on(const std::string& path, std::string_view action, int error) {
  throw SystemError(
      {.place = path,
       .key = "",
       .problem = fmt::format("cannot {}: {}", action, std::generic_category().message(error)),
       .remedy = remedy_of(error)});
}

}  // namespace ng
