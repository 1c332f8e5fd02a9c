#include "data/text_files.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>
#include <map>

#include "base/error.h"
#include "base/files.h"
#include "base/json.h"
#include "base/text.h"
#include "base/units.h"
#include "data/jsonl.h"
#include "data/prepared_texts.h"
#include "data/text_pattern.h"
#include "data/token_file.h"

namespace ng {
namespace {

constexpr const char* kEnding = ".txt";  // of what a folder means

// What cannot be looked at is refused by who reads it.
TextFile file_at(const std::string& path) {
  if (!is_file(path)) return {path};
  return {path, static_cast<int64_t>(file_size(path)), file_identity(path)};
}

/// Files that were met by their identity, under the names under which they were met first.
using NamesOfFiles = std::map<FileIdentity, std::string>;

NamesOfFiles names_of(const std::vector<TextFile>& files) {
  NamesOfFiles names;
  for (const TextFile& file : files) names.emplace(file.identity, file.path);
  return names;
}

std::string name_beside(const std::string& path, const std::string& other) {
  return path == other ? on_one_line(path)
                       : fmt::format("{} ({})", on_one_line(path), on_one_line(other));
}

bool is_binary(const TextFile& file, BinaryMeans binary) {
  if (binary == BinaryMeans::nothing || file.bytes == 0) return false;
  if (is_jsonl(file.path) || is_token_file(file.path)) return false;
  const MappedFile mapped(file.path);
  if (mapped.text().find('\0') != std::string_view::npos) return true;
  return binary == BinaryMeans::no_utf8 && !is_utf8(mapped.text());
}

std::string ending_of(const std::string& path) {
  return std::filesystem::path(path).extension().string();
}

/// How many files have each ending, the most frequent first; files without one are left out.
std::vector<std::pair<int64_t, std::string>> endings_of(const std::vector<TextFile>& files) {
  std::map<std::string, int64_t> counts;
  for (const TextFile& file : files)
    if (const std::string ending = ending_of(file.path); !ending.empty()) ++counts[ending];
  std::vector<std::pair<int64_t, std::string>> sorted;
  for (const auto& [ending, count] : counts) sorted.emplace_back(count, ending);
  std::stable_sort(sorted.begin(), sorted.end(),
                   [](const auto& a, const auto& b) { return a.first > b.first; });
  return sorted;
}

int64_t bytes_of(const std::vector<TextFile>& files) {
  int64_t bytes = 0;
  for (const TextFile& file : files) bytes += file.bytes;
  return bytes;
}

std::vector<TextFile> left_out_for(const FoundTexts& found, LeftOut reason) {
  std::vector<TextFile> files;
  for (const LeftOutFile& left : found.left_out)
    if (left.reason == reason) files.push_back(left.file);
  return files;
}

/// The most frequent alone: [{"ending": ".pm", "files": 601}, ...].
Json endings_json(const std::vector<TextFile>& files) {
  constexpr size_t kEndings = 3;
  Json endings = Json::array();
  for (const auto& [count, ending] : endings_of(files))
    if (endings.size() < kEndings)
      endings.push_back({{"ending", as_utf8(ending)}, {"files", count}});
  return endings;
}

/// "601 .pm, 20 .pod, 15 others by pattern"; of a version that told no endings "636 by pattern".
std::string by_pattern_text(const Json& left) {
  auto others = left.at("files").get<int64_t>();
  const auto endings = left.find("endings");
  if (endings == left.end()) return fmt::format("{} by pattern", others);
  std::vector<std::string> parts;
  for (const Json& one : *endings) {
    const auto count = one.at("files").get<int64_t>();
    parts.push_back(fmt::format("{} {}", count, on_one_line(one.at("ending").get<std::string>())));
    others -= count;
  }
  if (others > 0) parts.push_back(counted(others, "other"));
  return fmt::format("{} by pattern", fmt::join(parts, ", "));
}

/// "2 binary (texts/c.txt, ...)"; of a version that named none "2 binary".
std::string binary_text(const Json& left) {
  const auto count = left.at("files").get<int64_t>();
  std::string text = fmt::format("{} binary", count);
  if (const auto first = left.find("first"); first != left.end())
    text +=
        fmt::format(" ({}{})", on_one_line(first->get<std::string>()), count > 1 ? ", ..." : "");
  return text;
}

/// Looks for the files of one name after another.
class TextFinder {
 public:
  TextFinder(const TextsPlace& where, BinaryMeans binary) : where_(where), binary_(binary) {}

  void find(const std::string& name) {
    if (is_prepared_text(name)) {
      found_.read.push_back(file_at(prepare_text(name)));
    } else if (is_folder(name)) {
      add(name, files_of_folder(name, kEnding));
    } else if (is_file(name)) {
      found_.read.push_back(file_at(name));
    } else if (is_pattern(name)) {
      add(name, files_of_pattern(name));
    } else {
      fail(fmt::format("no file or folder {}", tried(name)),
           fmt::format("a path, a pattern like texts/**/*.txt, or a prepared text: {}",
                       prepared_text_names()));
    }
  }
  /// What one name leaves out another may mean.
  [[nodiscard]] FoundTexts take() {
    NamesOfFiles known = names_of(found_.read);
    std::erase_if(found_.left_out, [&](const LeftOutFile& left) {
      return !known.emplace(left.file.identity, left.file.path).second;
    });
    return std::move(found_);
  }

  [[noreturn]] void fail(const std::string& problem, const std::string& remedy) const {
    throw Error({.place = where_.place, .key = where_.key, .problem = problem, .remedy = remedy});
  }

 private:
  [[nodiscard]] std::string tried(const std::string& name) const {
    if (where_.folder.empty() || name.starts_with('/')) return fmt::format("\"{}\"", name);
    return fmt::format("\"{}\" or \"{}\"", join_path(where_.folder, name), name);
  }

  void add(const std::string& name, const MatchedFiles& matched) {
    found_.by_pattern = true;
    std::vector<TextFile> others;
    for (const std::string& path : matched.others) others.push_back(file_at(path));
    if (matched.files.empty()) refuse_empty(name, others);
    const size_t before = found_.read.size();
    for (const std::string& path : matched.files) {
      const TextFile file = file_at(path);
      if (is_binary(file, binary_))
        found_.left_out.push_back({file, LeftOut::binary});
      else
        found_.read.push_back(file);
    }
    if (found_.read.size() == before)
      fail(fmt::format("{} matches {}, all binary", tried(name),
                       counted(std::ssize(matched.files), "file")),
           "texts, or a file by its own name, which is read whatever it holds");
    for (const TextFile& file : others) found_.left_out.push_back({file, LeftOut::pattern});
  }

  [[noreturn]] void refuse_empty(const std::string& name, const std::vector<TextFile>& others) {
    if (!is_folder(name)) fail(fmt::format("{} matches no file", tried(name)), "check the pattern");
    const auto endings = endings_of(others);
    if (endings.empty()) fail(fmt::format("{} holds no .txt file", tried(name)), "name the files");
    fail(fmt::format("{} holds no .txt file", tried(name)),
         fmt::format("name the files: \"{}\" means its {} {}",
                     join_path(name, "**/*" + endings.front().second), endings.front().first,
                     endings.front().second));
  }

  const TextsPlace& where_;
  BinaryMeans binary_;
  FoundTexts found_;
};

}  // namespace

std::string_view name_of(LeftOut reason) {
  return reason == LeftOut::pattern ? "pattern" : "binary";
}

std::vector<std::string> FoundTexts::paths() const {
  std::vector<std::string> paths;
  for (const TextFile& file : read) paths.push_back(file.path);
  return paths;
}

FoundTexts find_texts(const std::vector<std::string>& names, const TextsPlace& where,
                      BinaryMeans binary) {
  TextFinder finder(where, binary);
  if (names.empty())
    finder.fail("names no text",
                fmt::format("a path, or a prepared text: {}", prepared_text_names()));
  for (const std::string& name : names) finder.find(name);
  return finder.take();
}

bool is_there(const std::string& name) {
  if (is_file(name) || is_folder(name)) return true;
  return is_pattern(name) && !files_of_pattern(name).files.empty();
}

std::string text_of(const FoundTexts& found) { return files_text(summary_of(found)); }

std::string files_text(const Json& summary) {
  const auto size_of = [](int64_t bytes) { return size_text(static_cast<double>(bytes)); };
  std::string text = fmt::format("{} ({})", counted(summary.at("files").get<int64_t>(), "file"),
                                 size_of(summary.at("bytes").get<int64_t>()));
  const Json& left_out = summary.at("left_out");
  int64_t count = 0, bytes = 0;
  std::vector<std::string> reasons;
  for (const LeftOut reason : {LeftOut::pattern, LeftOut::binary}) {
    const auto left = left_out.find(name_of(reason));
    if (left == left_out.end()) continue;
    count += left->at("files").get<int64_t>();
    bytes += left->at("bytes").get<int64_t>();
    reasons.push_back(reason == LeftOut::pattern ? by_pattern_text(*left) : binary_text(*left));
  }
  if (count == 0) return text;
  return text +
         fmt::format("; left out {} ({}): {}", count, size_of(bytes), fmt::join(reasons, ", "));
}

std::vector<std::string> shared_files(const FoundTexts& texts, const FoundTexts& others) {
  const NamesOfFiles theirs = names_of(others.read);
  std::vector<std::string> shared;
  for (const auto& [identity, path] : names_of(texts.read))
    if (const auto found = theirs.find(identity); found != theirs.end())
      shared.push_back(name_beside(path, found->second));
  std::sort(shared.begin(), shared.end());
  return shared;
}

std::vector<std::string> repeated_files(const FoundTexts& texts) {
  NamesOfFiles known, said;
  std::vector<std::string> repeated;
  for (const TextFile& file : texts.read) {
    const auto [first, is_new] = known.emplace(file.identity, file.path);
    if (!is_new && said.emplace(file.identity, file.path).second)
      repeated.push_back(name_beside(file.path, first->second));
  }
  return repeated;
}

Json summary_of(const FoundTexts& found) {
  Json left_out = Json::object();
  for (const LeftOut reason : {LeftOut::pattern, LeftOut::binary}) {
    const std::vector<TextFile> files = left_out_for(found, reason);
    if (files.empty()) continue;
    Json left = {{"files", files.size()}, {"bytes", bytes_of(files)}};
    if (reason == LeftOut::pattern)
      left["endings"] = endings_json(files);
    else
      left["first"] = as_utf8(files.front().path);
    left_out[std::string(name_of(reason))] = left;
  }
  return {{"files", found.read.size()}, {"bytes", bytes_of(found.read)}, {"left_out", left_out}};
}

Json list_of(const FoundTexts& found) {
  Json read = Json::array(), left_out = Json::array();
  for (const TextFile& file : found.read)
    read.push_back({{"path", as_utf8(file.path)}, {"bytes", file.bytes}});
  for (const LeftOutFile& left : found.left_out)
    left_out.push_back({{"path", as_utf8(left.file.path)},
                        {"bytes", left.file.bytes},
                        {"reason", name_of(left.reason)}});
  return {{"files", found.read.size()},
          {"bytes", bytes_of(found.read)},
          {"read", read},
          {"left_out", left_out}};
}

}  // namespace ng
