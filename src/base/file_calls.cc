#include "base/file_calls.h"

#include <fcntl.h>
#include <linux/fs.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <system_error>

#include "base/error.h"

namespace ng {
namespace {

std::atomic<FileFaults*> g_faults = nullptr;  // null outside of tests

bool struck(bool creates) {
  FileFaults* const faults = g_faults.load(std::memory_order_acquire);
  if (faults == nullptr || !faults->strikes(creates)) return false;
  if (faults->kind() == FaultKind::kill) ::raise(SIGKILL);
  errno = faults->error();
  return true;
}

template <class Call>
auto repeated(const Call& call) {
  auto result = call();
  while (result < 0 && errno == EINTR) result = call();
  return result;
}

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
       .problem = fmt::format("cannot {}: {}", action, std::generic_category().message(error)),
       .remedy = remedy_of(error)});
}

FileFaults::FileFaults(int64_t call, int error, FaultKind kind)
    : call_(call), error_(error), kind_(kind) {
  FileFaults* none = nullptr;
  NG_CHECK(g_faults.compare_exchange_strong(none, this));
}

FileFaults::~FileFaults() { g_faults.store(nullptr, std::memory_order_release); }

bool FileFaults::strikes(bool creates) {
  const int64_t now = ++calls_;
  if (call_ == 0 || now < call_) return false;
  return now == call_ || (kind_ == FaultKind::fail_from_then_on && creates);
}

namespace file_calls {

int open(const char* path, int flags) {
  if (struck((flags & O_ACCMODE) != O_RDONLY)) return -1;
  return repeated([&] { return ::open(path, flags | O_CLOEXEC, 0666); });
}

int close(int file) {
  const bool fails = struck(false);
  const int error = errno;
  const int result = ::close(file);
  if (!fails) return result < 0 && errno == EINTR ? 0 : result;  // Linux has closed it
  errno = error;
  return -1;
}

ssize_t write(int file, const void* data, size_t bytes) {
  FileFaults* const faults = g_faults.load(std::memory_order_acquire);
  if (faults != nullptr && faults->strikes(true)) {
    const ssize_t half = ::write(file, data, bytes / 2);
    if (faults->kind() == FaultKind::kill) ::raise(SIGKILL);
    errno = half < 0 ? errno : faults->error();
    return -1;
  }
  return repeated([&] { return ::write(file, data, bytes); });
}

ssize_t write_at(int file, const void* data, size_t bytes, int64_t offset) {
  if (struck(true)) return -1;
  return repeated([&] { return ::pwrite(file, data, bytes, offset); });
}

ssize_t read(int file, void* data, size_t bytes) {
  if (struck(false)) return -1;
  return repeated([&] { return ::read(file, data, bytes); });
}

ssize_t read_at(int file, void* data, size_t bytes, int64_t offset) {
  if (struck(false)) return -1;
  return repeated([&] { return ::pread(file, data, bytes, offset); });
}

int sync(int file) {
  if (struck(true)) return -1;
  return repeated([&] { return ::fsync(file); });
}

int truncate(int file, int64_t bytes) {
  if (struck(true)) return -1;
  return repeated([&] { return ::ftruncate(file, bytes); });
}

int rename(const char* from, const char* to) {
  if (struck(true)) return -1;
  return ::rename(from, to);
}

int exchange(const char* a, const char* b) {
  if (struck(true)) return -1;
  return static_cast<int>(
      ::syscall(SYS_renameat2, AT_FDCWD, a, AT_FDCWD, b, static_cast<unsigned>(RENAME_EXCHANGE)));
}

int make_folder(const char* path) {
  if (struck(true)) return -1;
  return ::mkdir(path, 0777);
}

int remove_file(const char* path) {
  if (struck(false)) return -1;
  return ::unlink(path);
}

int remove_folder(const char* path) {
  if (struck(false)) return -1;
  return ::rmdir(path);
}

void* map(int file, size_t bytes) {
  if (struck(false)) return MAP_FAILED;
  return ::mmap(nullptr, bytes, PROT_READ, MAP_PRIVATE, file, 0);
}

}  // namespace file_calls
}  // namespace ng
