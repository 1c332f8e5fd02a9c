// Writing, replacing and removing.
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <optional>
#include <utility>

#include "base/error.h"
#include "base/file_calls.h"
#include "base/files.h"
#include "base/temporary_names.h"

namespace ng {
namespace {

namespace fs = std::filesystem;

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
    if (written < 0) fail_on(path, "write", errno);
    next += written;
    bytes -= static_cast<size_t>(written);
  }
}

/// Makes names that appeared or changed in a folder survive a power failure.
void sync_folder(const std::string& folder) {
  const int file = file_calls::open(folder.c_str(), O_RDONLY | O_DIRECTORY);
  if (file < 0) fail_on(folder, "open the folder", errno);
  const int result = file_calls::sync(file);
  const int error = errno;
  const int closed = file_calls::close(file);
  if (result < 0) fail_on(folder, "sync the folder", error);
  if (closed < 0) fail_on(folder, "close the folder", errno);
}

void remove_tree(const std::string& path) {
  struct stat info {};
  if (::lstat(path.c_str(), &info) < 0) {
    if (errno == ENOENT) return;
    fail_on(path, "look at", errno);
  }
  if (!S_ISDIR(info.st_mode)) {
    if (file_calls::remove_file(path.c_str()) < 0) fail_on(path, "remove", errno);
    return;
  }
  for (const std::string& name : list_folder(path)) remove_tree(join_path(path, name));
  if (file_calls::remove_folder(path.c_str()) < 0) fail_on(path, "remove", errno);
}

void remove_quietly(const std::string& path) noexcept {
  try {
    remove_tree(path);
  } catch (const std::exception&) {
    return;  // called while another failure is on its way: that one matters
  }
}

void rename_folder(const std::string& from, const std::string& to) {
  if (file_calls::rename(from.c_str(), to.c_str()) < 0) fail_on(to, "rename", errno);
}

/// For file systems that cannot swap two names (NFS): afterwards `fresh` holds the old content. A
/// power failure in between leaves the old content under "<path>.old" (-2, ... where that is
/// there).
void replace_in_two_steps(const std::string& fresh, const std::string& path) {
  struct stat info {};
  std::string old = path + ".old";
  for (int n = 2; ::lstat(old.c_str(), &info) == 0; ++n) old = fmt::format("{}.old-{}", path, n);
  rename_folder(path, old);
  rename_folder(fresh, path);
  rename_folder(old, fresh);
}

/// A device or a folder must not be replaced by a file.
void refuse_irregular_target(const std::string& path) {
  struct stat info {};
  if (::stat(path.c_str(), &info) < 0) {
    if (errno == ENAMETOOLONG) fail_on(path, "create", errno);  // its temporary name may not be
    return;
  }
  if (S_ISREG(info.st_mode)) return;
  throw Error({.place = path,
               .problem = S_ISDIR(info.st_mode) ? "is a folder" : "is not a regular file",
               .remedy = "give the name of a file to write"});
}

/// Opens what has a temporary name, unless a writer has it; below 0: it has, or it is a link.
int open_unlocked(const std::string& path, int how) {
  const int file = ::open(path.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC | how);
  if (file < 0 || ::flock(file, LOCK_EX | LOCK_NB) == 0) return file;
  ::close(file);
  return -1;
}

/// Removes what killed processes left of `path`, a file's or a folder's. What a writer makes is
/// locked: that of another machine is known by it. Nothing depends on its success.
void remove_abandoned(const std::string& path, bool is_folder) {
  std::error_code ignored;
  const std::string own = name_with_room(path);
  std::vector<std::string> abandoned;
  for (fs::directory_iterator entry(folder_of(path), ignored), end; !ignored && entry != end;
       entry.increment(ignored)) {
    const std::string name = entry->path().filename().string();
    const std::optional<TemporaryName> made = parse_temporary_name(name);
    if (made && made->of == own && !is_running(made->maker))
      abandoned.push_back(entry->path().string());
  }
  for (const std::string& left : abandoned) {
    const int file = open_unlocked(left, is_folder ? O_DIRECTORY : 0);
    if (file < 0) continue;
    struct stat info {};
    if (is_folder)
      remove_quietly(left);
    else if (::fstat(file, &info) == 0 && S_ISREG(info.st_mode))
      ::unlink(left.c_str());
    ::close(file);
  }
}

}  // namespace

FileWriter::FileWriter(std::string path) : target_(link_target(path)), path_(std::move(path)) {
  refuse_irregular_target(path_);
  if (target_ != path_) path_ += " -> " + target_;  // for messages, from here on
  remove_abandoned(target_, false);
  for (int n = 0;; ++n) {
    temporary_ = temporary_name(target_, n);
    noted_ = NotedTemporary(temporary_);
    file_ = file_calls::open(temporary_.c_str(), O_WRONLY | O_CREAT | O_EXCL);
    if (file_ >= 0) {
      (void)::flock(file_, LOCK_EX | LOCK_NB);  // tells remove_abandoned() that it is in use
      return;
    }
    noted_.forget();
    if (errno != EEXIST) fail_on(path_, "create", errno);
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

void FileWriter::write_at(uint64_t offset, const void* data, size_t bytes) {
  NG_CHECK(file_ >= 0, path_);
  flush();  // or what was written before would come later
  const char* next = static_cast<const char*>(data);
  while (bytes > 0) {
    const ssize_t written = file_calls::write_at(file_, next, bytes, static_cast<int64_t>(offset));
    if (written < 0) fail_on(path_, "write", errno);
    next += written;
    offset += static_cast<uint64_t>(written);
    bytes -= static_cast<size_t>(written);
  }
}

void FileWriter::flush() {
  write_all(file_, path_, buffer_.data(), buffer_.size());
  buffer_.clear();
}

void FileWriter::commit() {
  NG_CHECK(file_ >= 0, path_);
  flush();
  if (file_calls::sync(file_) < 0) fail_on(path_, "sync", errno);
  if (file_calls::close(std::exchange(file_, -1)) < 0) fail_on(path_, "close", errno);
  if (file_calls::rename(temporary_.c_str(), target_.c_str()) < 0) fail_on(path_, "rename", errno);
  temporary_.clear();
  sync_folder(folder_of(target_));
}

void write_file_atomically(const std::string& path, std::string_view content) {
  FileWriter writer(path);
  writer.write(content);
  writer.commit();
}

AppendFile::AppendFile(std::string path, uint64_t keep_bytes) : path_(std::move(path)) {
  refuse_irregular_target(path_);
  file_ = file_calls::open(path_.c_str(), O_WRONLY | O_CREAT | O_APPEND);
  if (file_ < 0) fail_on(path_, "open for writing", errno);
  struct stat info {};
  if (::fstat(file_, &info) < 0) fail_on(path_, "look at", errno);
  bytes_ = std::min(static_cast<uint64_t>(info.st_size), keep_bytes);
  if (bytes_ == static_cast<uint64_t>(info.st_size)) return;
  if (file_calls::truncate(file_, static_cast<int64_t>(bytes_)) < 0) {
    const int error = errno;
    ::close(std::exchange(file_, -1));
    fail_on(path_, "shorten", error);
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
  if (file_calls::sync(file_) < 0) fail_on(path_, "sync", errno);
}

FolderWriter::FolderWriter(std::string final_path)
    : final_path_(link_target(without_trailing_slash(std::move(final_path)))),
      above_(folder_of(final_path_)) {
  remove_abandoned(final_path_, true);
  for (int n = 0;; ++n) {
    temporary_ = temporary_name(final_path_, n);
    if (file_calls::make_folder(temporary_.c_str()) == 0) break;
    if (errno != EEXIST) fail_on(final_path_, "create", errno);
  }
  noted_ = NotedTemporary(temporary_);
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
  if (replace == Replace::never) fail_on(final_path_, "create", EEXIST);
  if (!S_ISDIR(info.st_mode)) fail_on(final_path_, "replace", ENOTDIR);
  if (file_calls::exchange(temporary_.c_str(), final_path_.c_str()) < 0) {
    if (errno != EINVAL && errno != ENOSYS && errno != ENOTSUP)
      fail_on(final_path_, "replace", errno);
    replace_in_two_steps(temporary_, final_path_);
  }
  sync_folder(folder_of(final_path_));
  remove_tree(std::exchange(temporary_, std::string()));  // now holds the old content
}

void make_folders(const std::string& path) {
  const std::string folder = link_target(without_trailing_slash(path));
  if (folder.empty() || is_folder(folder)) return;
  make_folders(fs::path(folder).parent_path().string());
  if (file_calls::make_folder(folder.c_str()) == 0) return sync_folder(folder_of(folder));
  const int error = errno;
  if (error == EEXIST && is_folder(folder)) return;  // another process was faster
  fail_on(path, "create the folder", error);
}

NewFolders::NewFolders(const std::string& path) {
  for (std::string folder = link_target(without_trailing_slash(path));
       !folder.empty() && !is_folder(folder);
       folder = link_target(fs::path(folder).parent_path().string()))
    made_.push_back(folder);
  try {
    make_folders(path);
  } catch (...) {
    remove_empty();
    throw;
  }
}

NewFolders::~NewFolders() { remove_empty(); }

void NewFolders::remove_empty() const noexcept {
  for (const std::string& folder : made_)
    (void)::rmdir(folder.c_str());  // fails where it is in use
}

void remove_all(const std::string& path) {
  const std::string name = without_trailing_slash(path);
  struct stat info {};
  if (::lstat(name.c_str(), &info) < 0 || !S_ISDIR(info.st_mode)) return remove_tree(name);
  std::string temporary;
  for (int n = 0;; ++n) {
    temporary = temporary_name(name, n);
    if (::lstat(temporary.c_str(), &info) < 0) break;
  }
  rename_folder(name, temporary);  // a kill from here on leaves no half of it under its name
  remove_tree(temporary);
}

void move_path(const std::string& from, const std::string& to) {
  remove_all(to);
  rename_folder(from, to);
  sync_folder(folder_of(to));
}

void remove_stale_temporaries(const std::string& folder,
                              const std::function<bool(std::string_view name)>& ours) {
  for (const std::string& name : list_folder(folder)) {
    const std::optional<TemporaryName> made = parse_temporary_name(name);
    if (!made || !ours(made->of)) continue;
    // A process of before may have had this one's id, which in a container begins anew.
    if (made->maker == ::getpid() || !is_running(made->maker)) remove_tree(join_path(folder, name));
  }
}

FolderLock::FolderLock(const std::string& folder) {
  file_ = file_calls::open(folder.c_str(), O_RDONLY | O_DIRECTORY);
  if (file_ < 0) fail_on(folder, "open the folder", errno);
  if (::flock(file_, LOCK_EX | LOCK_NB) == 0) return;
  ::close(std::exchange(file_, -1));
  throw Error({.place = folder,
               .problem = "is in use by another process",
               .remedy = "wait for it or choose another folder"});
}

FolderLock::~FolderLock() {
  if (file_ >= 0) ::close(file_);
}

}  // namespace ng
