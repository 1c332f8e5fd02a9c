#include "data/text_files.h"

#include <glob.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>

#include "base/error.h"
#include "base/file_calls.h"
#include "base/files.h"
#include "data/prepared_texts.h"

namespace ng {
namespace {

// `inside`: the folders on the way here, so that a link back to one of them is not followed.
void add_folder(const std::string& folder, std::vector<std::string> inside,
                std::vector<std::string>* files) {
  std::error_code error;
  const std::string real = std::filesystem::canonical(folder, error).string();
  if (error) fail_on(folder, "follow", error.value());
  if (std::find(inside.begin(), inside.end(), real) != inside.end()) return;
  inside.push_back(real);
  for (const std::string& name : list_folder(folder)) {
    const std::string path = join_path(folder, name);
    if (is_folder(path)) {
      add_folder(path, inside, files);
    } else if (name.ends_with(".txt")) {
      files->push_back(path);
    }
  }
}

std::vector<std::string> matches_of(const std::string& pattern) {
  glob_t found{};
  std::vector<std::string> files;
  if (::glob(pattern.c_str(), 0, nullptr, &found) == 0) {
    files.assign(found.gl_pathv, found.gl_pathv + found.gl_pathc);
  }
  ::globfree(&found);
  std::erase_if(files, [](const std::string& path) { return is_folder(path); });
  std::sort(files.begin(), files.end());  // by bytes, whatever the locale
  return files;
}

/// A pattern's matches are none for want of a permission?
void refuse_unreadable(const std::string& pattern) {
  glob_t found{};
  const auto stops = [](const char*, int error) -> int { return error == ENOENT ? 0 : error; };
  const bool unreadable = ::glob(pattern.c_str(), 0, stops, &found) == GLOB_ABORTED;
  const int error = errno;
  ::globfree(&found);
  if (unreadable) fail_on(pattern, "look for files", error);
}

std::vector<std::string> texts_of(const std::string& name, const TextsPlace& where) {
  const auto fail = [&](const std::string& problem, const std::string& remedy) {
    throw Error({.place = where.place, .key = where.key, .problem = problem, .remedy = remedy});
  };
  if (is_prepared_text(name)) return {prepare_text(name)};
  std::vector<std::string> files;
  if (is_folder(name)) {
    add_folder(name, {}, &files);
    std::sort(files.begin(), files.end());
    if (files.empty()) fail(fmt::format("\"{}\" holds no .txt file", name), "name the files");
  } else if (is_file(name)) {
    files.push_back(name);
  } else if (name.find_first_of("*?[") != std::string::npos) {
    files = matches_of(name);
    if (files.empty()) refuse_unreadable(name);
    if (files.empty()) fail(fmt::format("\"{}\" matches no file", name), "check the pattern");
  } else {
    fail(fmt::format("no file or folder \"{}\"", name),
         fmt::format("a path, a pattern like texts/*.txt, or a prepared text: {}",
                     prepared_text_names()));
  }
  return files;
}

}  // namespace

std::vector<std::string> find_texts(const std::vector<std::string>& names,
                                    const TextsPlace& where) {
  std::vector<std::string> files;
  for (const std::string& name : names) {
    const std::vector<std::string> more = texts_of(name, where);
    files.insert(files.end(), more.begin(), more.end());
  }
  if (files.empty()) {
    throw Error({.place = where.place,
                 .key = where.key,
                 .problem = "names no text",
                 .remedy = fmt::format("a path, or a prepared text: {}", prepared_text_names())});
  }
  return files;
}

}  // namespace ng
