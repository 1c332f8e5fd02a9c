#include "base/files.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <system_error>
#include <utility>

#include "base/error.h"
#include "base/file_calls.h"

namespace ng {
namespace {

namespace fs = std::filesystem;

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

[[noreturn]] void fail(const std::string& path, std::string_view action, int error) {
  throw Error(
      {.place = path,
       .key = "",
       .problem = fmt::format("cannot {}: {}", action, std::generic_category().message(error)),
       .remedy = remedy_of(error)});
}

std::string folder_of(const std::string& path) {
  const std::string parent = fs::path(path).parent_path().string();
  return parent.empty() ? "." : parent;
}

/// A path without its trailing slashes, so that a suffix makes a neighbour of it.
std::string without_trailing_slash(std::string path) {
  while (path.size() > 1 && path.back() == '/') path.pop_back();
  return path;
}

void write_all(int file, const std::string& path, const void* data, size_t bytes) {
  const char* next = static_cast<const char*>(data);
  while (bytes > 0) {
    const ssize_t written = file_calls::write(file, next, bytes);
    if (written < 0) fail(path, "write", errno);
    next += written;
    bytes -= static_cast<size_t>(written);
  }
}

/// Makes names that appeared or changed in a folder survive a power failure.
void sync_folder(const std::string& folder) {
  const int file = file_calls::open(folder.c_str(), O_RDONLY | O_DIRECTORY);
  if (file < 0) fail(folder, "open the folder", errno);
  const int result = file_calls::sync(file);
  const int error = errno;
  const int closed = file_calls::close(file);
  if (result < 0) fail(folder, "sync the folder", error);
  if (closed < 0) fail(folder, "close the folder", errno);
}

/// Opens an existing regular file for reading.
int open_regular(const std::string& path, struct stat& info) {
  const int file = file_calls::open(path.c_str(), O_RDONLY | O_NONBLOCK);  // a FIFO must not block
  if (file < 0) fail(path, "open", errno);
  if (::fstat(file, &info) == 0 && S_ISREG(info.st_mode)) return file;
  const bool folder = S_ISDIR(info.st_mode);
  ::close(file);
  throw Error({.place = path,
               .key = "",
               .problem = folder ? "is a folder" : "is not a regular file",
               .remedy = "give a file"});
}

std::string temporary_name(const std::string& path, int n) {
  return fmt::format("{}{}{}-{}", path, kTemporaryMark, ::getpid(), n);
}

bool is_temporary_name(std::string_view name) {
  const size_t mark = name.rfind(kTemporaryMark);
  if (mark == std::string_view::npos) return false;
  const std::string_view tail = name.substr(mark + kTemporaryMark.size());
  return !tail.empty() && tail.find_first_not_of("0123456789-") == std::string_view::npos;
}

void remove_tree(const std::string& path) {
  struct stat info {};
  if (::lstat(path.c_str(), &info) < 0) {
    if (errno == ENOENT) return;
    fail(path, "look at", errno);
  }
  if (!S_ISDIR(info.st_mode)) {
    if (file_calls::remove_file(path.c_str()) < 0) fail(path, "remove", errno);
    return;
  }
  for (const std::string& name : list_folder(path)) remove_tree(join_path(path, name));
  if (file_calls::remove_folder(path.c_str()) < 0) fail(path, "remove", errno);
}

void remove_quietly(const std::string& path) noexcept {
  try {
    remove_tree(path);
  } catch (const std::exception&) {
    return;  // called while another failure is on its way: that one matters
  }
}

void rename_folder(const std::string& from, const std::string& to) {
  if (file_calls::rename(from.c_str(), to.c_str()) < 0) fail(to, "rename", errno);
}

/// For file systems that cannot swap two names (NFS): afterwards `fresh` holds the old content. A
/// power failure in between leaves the old content under "<path>.old".
void replace_in_two_steps(const std::string& fresh, const std::string& path) {
  const std::string old = path + ".old";
  remove_tree(old);
  rename_folder(path, old);
  rename_folder(fresh, path);
  rename_folder(old, fresh);
}

/// A device or a folder must not be replaced by a file.
void refuse_irregular_target(const std::string& path) {
  struct stat info {};
  if (::stat(path.c_str(), &info) < 0 || S_ISREG(info.st_mode)) return;
  throw Error({.place = path,
               .key = "",
               .problem = S_ISDIR(info.st_mode) ? "is a folder" : "is not a regular file",
               .remedy = "give the name of a file to write"});
}

}  // namespace

MappedFile::MappedFile(const std::string& path) : path_(path) {
  struct stat info {};
  const int file = open_regular(path, info);
  size_ = static_cast<size_t>(info.st_size);
  void* const memory = size_ == 0 ? nullptr : file_calls::map(file, size_);
  const int error = errno;
  ::close(file);  // read-only: nothing can be lost
  if (memory == MAP_FAILED) fail(path, "map into memory", error);
  data_ = static_cast<const std::byte*>(memory);
}

MappedFile::MappedFile(MappedFile&& other) noexcept
    : path_(std::move(other.path_)),
      data_(std::exchange(other.data_, nullptr)),
      size_(std::exchange(other.size_, 0)) {}

MappedFile& MappedFile::operator=(MappedFile&& other) noexcept {
  std::swap(path_, other.path_);
  std::swap(data_, other.data_);
  std::swap(size_, other.size_);
  return *this;
}

MappedFile::~MappedFile() {
  if (data_ != nullptr) ::munmap(const_cast<std::byte*>(data_), size_);
}

ReadFile::ReadFile(const std::string& path) : path_(path) {
  struct stat info {};
  file_ = open_regular(path, info);
  size_ = static_cast<uint64_t>(info.st_size);
}

ReadFile::ReadFile(ReadFile&& other) noexcept
    : path_(std::move(other.path_)),
      file_(std::exchange(other.file_, -1)),
      size_(std::exchange(other.size_, 0)) {}

ReadFile& ReadFile::operator=(ReadFile&& other) noexcept {
  std::swap(path_, other.path_);
  std::swap(file_, other.file_);
  std::swap(size_, other.size_);
  return *this;
}

ReadFile::~ReadFile() {
  if (file_ >= 0) ::close(file_);
}

void ReadFile::read(uint64_t offset, std::span<std::byte> out) const {
  while (!out.empty()) {
    const ssize_t got =
        file_calls::read_at(file_, out.data(), out.size(), static_cast<int64_t>(offset));
    if (got < 0) fail(path_, "read", errno);
    if (got == 0) {
      throw Error({.place = path_,
                   .key = "",
                   .problem = fmt::format("ends at byte {} instead of {}", offset, size_),
                   .remedy = "it must not change while it is in use"});
    }
    offset += static_cast<uint64_t>(got);
    out = out.subspan(static_cast<size_t>(got));
  }
}

std::string read_file(const std::string& path, size_t max_bytes) {
  struct stat info {};
  const int file = open_regular(path, info);
  std::string content(std::min(static_cast<size_t>(info.st_size), max_bytes) + 1, '\0');
  size_t have = 0;
  ssize_t got = 1;
  while (got > 0 && have <= max_bytes) {
    if (have == content.size()) content.resize(std::min(2 * have, max_bytes + 1));
    got = file_calls::read(file, content.data() + have, content.size() - have);
    if (got > 0) have += static_cast<size_t>(got);
  }
  const int error = errno;
  ::close(file);
  if (got < 0) fail(path, "read", error);
  if (have > max_bytes) {
    throw Error({.place = path,
                 .key = "",
                 .problem = fmt::format("is larger than {} bytes", max_bytes),
                 .remedy = "is it the right file?"});
  }
  content.resize(have);
  return content;
}

bool is_file(const std::string& path) {
  struct stat info {};
  return ::stat(path.c_str(), &info) == 0 && S_ISREG(info.st_mode);
}

bool is_folder(const std::string& path) {
  struct stat info {};
  return ::stat(path.c_str(), &info) == 0 && S_ISDIR(info.st_mode);
}

uint64_t file_size(const std::string& path) {
  struct stat info {};
  if (::stat(path.c_str(), &info) < 0) fail(path, "look at", errno);
  return static_cast<uint64_t>(info.st_size);
}

std::vector<std::string> list_folder(const std::string& path) {
  std::error_code error;
  std::vector<std::string> names;
  fs::directory_iterator entry(path, error);
  while (!error && entry != fs::directory_iterator()) {
    names.push_back(entry->path().filename().string());
    entry.increment(error);
  }
  if (error) fail(path, "list the folder", error.value());
  std::sort(names.begin(), names.end());
  return names;
}

std::string join_path(std::string_view folder, std::string_view name) {
  return (fs::path(folder) / fs::path(name)).string();
}

FileWriter::FileWriter(std::string path) : path_(std::move(path)) {
  refuse_irregular_target(path_);
  for (int n = 0;; ++n) {
    temporary_ = temporary_name(path_, n);
    file_ = file_calls::open(temporary_.c_str(), O_WRONLY | O_CREAT | O_EXCL);
    if (file_ >= 0) return;
    if (errno != EEXIST) fail(path_, "create", errno);
  }
}

FileWriter::~FileWriter() {
  if (file_ >= 0) ::close(file_);
  if (!temporary_.empty()) ::unlink(temporary_.c_str());
}

void FileWriter::write(const void* data, size_t bytes) {
  constexpr size_t kBufferBytes = 1 << 18;
  NG_CHECK(file_ >= 0, path_);
  if (buffer_.size() + bytes > kBufferBytes) flush();
  if (bytes > kBufferBytes) return write_all(file_, path_, data, bytes);
  buffer_.append(static_cast<const char*>(data), bytes);
}

void FileWriter::flush() {
  write_all(file_, path_, buffer_.data(), buffer_.size());
  buffer_.clear();
}

void FileWriter::commit() {
  NG_CHECK(file_ >= 0, path_);
  flush();
  if (file_calls::sync(file_) < 0) fail(path_, "sync", errno);
  if (file_calls::close(std::exchange(file_, -1)) < 0) fail(path_, "close", errno);
  if (file_calls::rename(temporary_.c_str(), path_.c_str()) < 0) fail(path_, "rename", errno);
  temporary_.clear();
  sync_folder(folder_of(path_));
}

void write_file_atomically(const std::string& path, std::string_view content) {
  FileWriter writer(path);
  writer.write(content);
  writer.commit();
}

AppendFile::AppendFile(std::string path, uint64_t keep_bytes) : path_(std::move(path)) {
  refuse_irregular_target(path_);
  file_ = file_calls::open(path_.c_str(), O_WRONLY | O_CREAT | O_APPEND);
  if (file_ < 0) fail(path_, "open for writing", errno);
  struct stat info {};
  if (::fstat(file_, &info) < 0) fail(path_, "look at", errno);
  bytes_ = std::min(static_cast<uint64_t>(info.st_size), keep_bytes);
  if (bytes_ == static_cast<uint64_t>(info.st_size)) return;
  if (file_calls::truncate(file_, static_cast<int64_t>(bytes_)) < 0) {
    const int error = errno;
    ::close(std::exchange(file_, -1));
    fail(path_, "shorten", error);
  }
}

AppendFile::~AppendFile() {
  if (file_ >= 0) ::close(file_);
}

void AppendFile::append(std::string_view text) {
  write_all(file_, path_, text.data(), text.size());
  bytes_ += text.size();
}

void AppendFile::sync() {
  if (file_calls::sync(file_) < 0) fail(path_, "sync", errno);
}

FolderWriter::FolderWriter(std::string final_path)
    : final_path_(without_trailing_slash(std::move(final_path))) {
  make_folders(folder_of(final_path_));
  for (int n = 0;; ++n) {
    temporary_ = temporary_name(final_path_, n);
    if (file_calls::make_folder(temporary_.c_str()) == 0) return;
    if (errno != EEXIST) fail(final_path_, "create", errno);
  }
}

FolderWriter::~FolderWriter() {
  if (!temporary_.empty()) remove_quietly(temporary_);
}

void FolderWriter::publish(Replace replace) {
  NG_CHECK(!temporary_.empty(), final_path_);
  sync_folder(temporary_);
  struct stat info {};
  if (::lstat(final_path_.c_str(), &info) < 0) {
    rename_folder(temporary_, final_path_);
    temporary_.clear();
    return sync_folder(folder_of(final_path_));
  }
  if (replace == Replace::never) fail(final_path_, "create", EEXIST);
  if (file_calls::exchange(temporary_.c_str(), final_path_.c_str()) < 0) {
    if (errno != EINVAL && errno != ENOSYS && errno != ENOTSUP) fail(final_path_, "replace", errno);
    replace_in_two_steps(temporary_, final_path_);
  }
  sync_folder(folder_of(final_path_));
  remove_tree(std::exchange(temporary_, std::string()));  // now holds the old content
}

void make_folders(const std::string& path) {
  const std::string folder = without_trailing_slash(path);
  if (folder.empty() || is_folder(folder)) return;
  make_folders(fs::path(folder).parent_path().string());
  if (file_calls::make_folder(folder.c_str()) == 0) return sync_folder(folder_of(folder));
  const int error = errno;
  if (error == EEXIST && is_folder(folder)) return;  // another process was faster
  fail(path, "create the folder", error);
}

void remove_all(const std::string& path) { remove_tree(without_trailing_slash(path)); }

void remove_stale_temporaries(const std::string& folder) {
  for (const std::string& name : list_folder(folder)) {
    if (is_temporary_name(name)) remove_tree(join_path(folder, name));
  }
}

FolderLock::FolderLock(const std::string& folder) {
  file_ = file_calls::open(folder.c_str(), O_RDONLY | O_DIRECTORY);
  if (file_ < 0) fail(folder, "open the folder", errno);
  if (::flock(file_, LOCK_EX | LOCK_NB) == 0) return;
  ::close(std::exchange(file_, -1));
  throw Error({.place = folder,
               .key = "",
               .problem = "is in use by another process",
               .remedy = "wait for it or choose another folder"});
}

FolderLock::~FolderLock() {
  if (file_ >= 0) ::close(file_);
}

}  // namespace ng
