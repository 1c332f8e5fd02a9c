// Reading and looking.
#include <fcntl.h>
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
#include "base/files.h"

namespace ng {
namespace {

namespace fs = std::filesystem;

/// Opens an existing regular file for reading.
int open_regular(const std::string& path, struct stat& info) {
  const int file = file_calls::open(path.c_str(), O_RDONLY | O_NONBLOCK);  // a FIFO must not block
  if (file < 0) fail_on(path, "open", errno);
  if (::fstat(file, &info) == 0 && S_ISREG(info.st_mode)) return file;
  const bool folder = S_ISDIR(info.st_mode);
  ::close(file);
  throw Error({.place = path,
               .problem = folder ? "is a folder" : "is not a regular file",
               .remedy = "give a file"});
}

/// What stands at a path; 0: nothing. What may not be looked at is not nothing.
mode_t mode_of(const std::string& path) {
  struct stat info {};
  if (::stat(path.c_str(), &info) == 0) return info.st_mode;
  for (const int nothing : {ENOENT, ENOTDIR, ELOOP, ENAMETOOLONG})
    if (errno == nothing) return 0;
  fail_on(path, "look at", errno);
}

}  // namespace

MappedFile::MappedFile(const std::string& path) : path_(path) {
  struct stat info {};
  const int file = open_regular(path, info);
  size_ = static_cast<size_t>(info.st_size);
  void* const memory = size_ == 0 ? nullptr : file_calls::map(file, size_);
  const int error = errno;
  ::close(file);  // read-only: nothing can be lost
  if (memory == MAP_FAILED) fail_on(path, "map into memory", error);
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
    if (got < 0) fail_on(path_, "read", errno);
    if (got == 0) {
      struct stat info {};
      const uint64_t end =
          ::fstat(file_, &info) == 0 ? static_cast<uint64_t>(info.st_size) : offset;
      throw Error({.place = path_,
                   .problem = fmt::format("ends at byte {} instead of {}", end, size_),
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
  if (got < 0) fail_on(path, "read", error);
  if (have > max_bytes) {
    throw Error({.place = path,
                 .problem = fmt::format("is larger than {} bytes", max_bytes),
                 .remedy = "is it the right file?"});
  }
  content.resize(have);
  return content;
}

bool begins_with(const std::string& path, std::string_view begin) {
  const ReadFile file(path);
  if (file.size() < begin.size()) return false;
  std::string head(begin.size(), '\0');
  file.read(0, std::as_writable_bytes(std::span(head)));
  return head == begin;
}

void require_own_file(const std::string& path, std::string_view begin, std::string_view what) {
  struct stat info {};
  if (::stat(path.c_str(), &info) < 0) return;
  const bool is_regular = S_ISREG(info.st_mode);
  if (is_regular && (info.st_size == 0 || begins_with(path, begin))) return;
  throw Error({.place = path,
               .problem = is_regular ? fmt::format("is there and not known as {}", what)
                                     : std::string("is there and not a regular file"),
               .remedy = "another folder to write to, or that moved out of the way"});
}

std::string link_target(const std::string& path) {
  constexpr int kMostLinks = 40;  // as many as Linux follows
  std::error_code error;
  fs::path target = path;
  for (int links = 0; fs::is_symlink(fs::symlink_status(target, error)); ++links) {
    const fs::path next = fs::read_symlink(target, error);
    if (error) fail_on(path, "follow the link", error.value());
    target = target.parent_path() / next;  // `next` alone where it is absolute
    if (links == kMostLinks)
      throw Error({.place = path,
                   .problem = "is a symbolic link that leads back to itself",
                   .remedy = "a file or a folder"});
  }
  return target.string();
}

bool is_file(const std::string& path) { return S_ISREG(mode_of(path)); }

bool is_folder(const std::string& path) { return S_ISDIR(mode_of(path)); }

uint64_t file_size(const std::string& path) {
  struct stat info {};
  if (::stat(path.c_str(), &info) < 0) fail_on(path, "look at", errno);
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
  if (error) fail_on(path, "list the folder", error.value());
  std::sort(names.begin(), names.end());
  return names;
}

std::string join_path(std::string_view folder, std::string_view name) {
  return (fs::path(folder) / fs::path(name)).string();
}

}  // namespace ng
