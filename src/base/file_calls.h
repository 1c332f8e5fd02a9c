// The file-system calls that base/files makes, behind one guard that a test can make fail.
#pragma once

#include <sys/types.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace ng {

/// What happens at the chosen file-system call.
enum class FaultKind : uint8_t {
  fail_once,          ///< that call fails, later ones work
  fail_from_then_on,  ///< that call and all later ones that create or write fail: a full disk
  kill,               ///< the process gets SIGKILL instead of making the call
};

/// For tests: while an object of this class lives, the `call`-th guarded file-system call
/// (counting from 1) of the process fails with `error`. A failing write first writes half of its
/// bytes, a failing close closes. At most one object lives at a time.
class FileFaults {
 public:
  /// `call` 0 only counts.
  explicit FileFaults(int64_t call, int error = 0, FaultKind kind = FaultKind::fail_once);
  ~FileFaults();
  FileFaults(const FileFaults&) = delete;
  FileFaults& operator=(const FileFaults&) = delete;

  /// Guarded calls made so far.
  [[nodiscard]] int64_t calls() const { return calls_; }

  /// Counts one call. True: it must fail, with errno = error(). `creates`: opens for writing,
  /// writes, syncs, renames or makes a folder.
  bool strikes(bool creates);
  [[nodiscard]] FaultKind kind() const { return kind_; }
  [[nodiscard]] int error() const { return error_; }

 private:
  const int64_t call_;
  const int error_;
  const FaultKind kind_;
  std::atomic<int64_t> calls_ = 0;
};

/// Throws SystemError{path, "cannot <action>: <what errno means>", <what to do about it>}: how
/// base/files reports what the operating system refused.
[[noreturn]] void fail_on(const std::string& path, std::string_view action, int error);

/// The calls themselves: results and errno are those of the operating system's call. Interrupted
/// calls are repeated.
namespace file_calls {

int open(const char* path, int flags);
int close(int file);
ssize_t write(int file, const void* data, size_t bytes);
ssize_t write_at(int file, const void* data, size_t bytes, int64_t offset);
ssize_t read(int file, void* data, size_t bytes);
ssize_t read_at(int file, void* data, size_t bytes, int64_t offset);
int sync(int file);
int truncate(int file, int64_t bytes);
int rename(const char* from, const char* to);
/// Swaps two names in one step; fails with ENOSYS or EINVAL where the file system cannot.
int exchange(const char* a, const char* b);
int make_folder(const char* path);
int remove_file(const char* path);
int remove_folder(const char* path);
/// MAP_FAILED on failure.
void* map(int file, size_t bytes);

}  // namespace file_calls
}  // namespace ng
