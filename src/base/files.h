// Reading and writing files so that nothing is half-written: the only place of the program that
// writes. A new file gets a temporary name in the same folder, is written, synced and renamed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/temporaries.h"
#include "base/temporary_names.h"

namespace ng {

/// A regular file's bytes, read-only and paged in on demand. Movable. Throws Error naming the path.
class MappedFile {
 public:
  MappedFile() = default;
  explicit MappedFile(const std::string& path);
  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&& other) noexcept;
  ~MappedFile();

  [[nodiscard]] const std::string& path() const { return path_; }
  [[nodiscard]] std::span<const std::byte> bytes() const { return {data_, size_}; }
  /// The same bytes as text.
  [[nodiscard]] std::string_view text() const {
    return {reinterpret_cast<const char*>(data_), size_};
  }

 private:
  std::string path_;
  const std::byte* data_ = nullptr;
  size_t size_ = 0;
};

/// A regular file read at any place, without mapping it. Movable. Throws Error naming the path.
class ReadFile {
 public:
  explicit ReadFile(const std::string& path);
  ReadFile(ReadFile&& other) noexcept;
  ReadFile& operator=(ReadFile&& other) noexcept;
  ~ReadFile();

  [[nodiscard]] const std::string& path() const { return path_; }
  /// Bytes when it was opened.
  [[nodiscard]] uint64_t size() const { return size_; }
  /// Fills `out` from byte `offset` on; throws where the file has become shorter. Thread-safe.
  void read(uint64_t offset, std::span<std::byte> out) const;

 private:
  std::string path_;
  int file_ = -1;
  uint64_t size_ = 0;
};

/// The whole of a regular file of at most `max_bytes`.
[[nodiscard]] std::string read_file(const std::string& path, size_t max_bytes);

/// False where there is nothing; throws SystemError where that cannot be known, for want of a
/// permission or by a failing disk.
[[nodiscard]] bool is_file(const std::string& path);
[[nodiscard]] bool is_folder(const std::string& path);

/// Size of a regular file in bytes.
[[nodiscard]] uint64_t file_size(const std::string& path);

/// Names (not paths) of what a folder holds, sorted by bytes.
[[nodiscard]] std::vector<std::string> list_folder(const std::string& path);

/// `folder`/`name`; `name` alone where the folder is empty.
[[nodiscard]] std::string join_path(std::string_view folder, std::string_view name);

/// Where a path leads: through symbolic links, one after another, to what they mean, there or not;
/// a path that is no link leads to itself. Throws Error for links that lead back to themselves.
[[nodiscard]] std::string link_target(const std::string& path);

/// Writes one file under a temporary name; commit() makes it appear whole under its own, replacing
/// what was there. Where that is a symbolic link, it stays, and the file it means is written, in
/// its folder. Without commit() the temporary file goes away; one that a killed process left beside
/// the file goes when the next is begun. Every failure throws Error.
class FileWriter {
 public:
  explicit FileWriter(std::string path);
  ~FileWriter();
  FileWriter(const FileWriter&) = delete;
  FileWriter& operator=(const FileWriter&) = delete;

  void write(const void* data, size_t bytes);
  void write(std::string_view text) { write(text.data(), text.size()); }
  /// At byte `offset` of the file, whatever was written before; moves no later write().
  void write_at(uint64_t offset, const void* data, size_t bytes);
  /// Syncs the file, closes it, renames it and syncs its folder.
  void commit();

 private:
  void flush();

  std::string target_;  ///< where the path leads
  std::string path_;
  std::string temporary_;
  NotedTemporary noted_;
  std::string buffer_;  ///< gathers small writes
  int file_ = -1;
};

/// Removes the temporary files of all FileWriters and folders of all FolderWriters of this process.
/// Safe in a signal handler that ends the process.
void unlink_temporaries() noexcept;

void write_file_atomically(const std::string& path, std::string_view content);

/// Whether a file begins with these bytes.
[[nodiscard]] bool begins_with(const std::string& path, std::string_view begin);

/// Throws Error where there is something at `path` that is neither empty nor a file that begins as
/// those do that the program writes there: it must not be replaced. `what`: "a run's".
void require_own_file(const std::string& path, std::string_view begin, std::string_view what);

/// A file that grows by whole lines, e.g. metrics. Created when missing.
class AppendFile {
 public:
  /// Keeps the first `keep_bytes` of an existing file (all of it where it is shorter).
  explicit AppendFile(std::string path, uint64_t keep_bytes = UINT64_MAX);
  ~AppendFile();
  AppendFile(const AppendFile&) = delete;
  AppendFile& operator=(const AppendFile&) = delete;

  /// Hands all bytes to the system: they survive the process, not a power failure.
  void append(std::string_view text);
  void sync();
  [[nodiscard]] uint64_t bytes() const { return bytes_; }

 private:
  std::string path_;
  int file_ = -1;
  uint64_t bytes_ = 0;
};

/// Makes a folder and those above it; fine where it exists. A symbolic link means another folder.
void make_folders(const std::string& path);

/// Makes a folder and those above it for files to come. When it goes, so do those of them that are
/// still empty.
class NewFolders {
 public:
  explicit NewFolders(const std::string& path);
  ~NewFolders();
  NewFolders(const NewFolders&) = delete;
  NewFolders& operator=(const NewFolders&) = delete;

 private:
  void remove_empty() const noexcept;
  std::vector<std::string> made_;  ///< the innermost first
};

/// May publish() replace a folder that is already there?
enum class Replace : uint8_t { never, always };

/// Fills a folder under a temporary name; publish() makes it appear whole under its own, or where
/// that leads as a symbolic link. Without publish() it goes away. Write its files with FileWriter
/// into path().
class FolderWriter {
 public:
  explicit FolderWriter(std::string final_path);
  ~FolderWriter();
  FolderWriter(const FolderWriter&) = delete;
  FolderWriter& operator=(const FolderWriter&) = delete;

  /// The temporary folder.
  [[nodiscard]] const std::string& path() const { return temporary_; }
  void publish(Replace replace);

 private:
  std::string final_path_;
  NewFolders above_;
  std::string temporary_;
  NotedTemporary noted_;
};

/// Removes a file or a folder with all it holds, without following links; fine where it is absent.
/// A folder gets a temporary name first: it goes as a whole.
void remove_all(const std::string& path);

/// Renames a file or folder; what was at `to` is removed.
void move_path(const std::string& from, const std::string& to);

/// Removes what unfinished FileWriters and FolderWriters of processes that have ended left in a
/// folder, of names that are `ours`. The caller must be the only writer of those (FolderLock).
void remove_stale_temporaries(const std::string& folder,
                              const std::function<bool(std::string_view name)>& ours);

/// Keeps other processes that ask for the same lock out of a folder; ends with the process.
class FolderLock {
 public:
  /// Throws Error where another process holds the lock.
  explicit FolderLock(const std::string& folder);
  ~FolderLock();
  FolderLock(const FolderLock&) = delete;
  FolderLock& operator=(const FolderLock&) = delete;

 private:
  int file_ = -1;
};

}  // namespace ng
