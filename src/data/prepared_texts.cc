#include "data/prepared_texts.h"

#include <algorithm>
#include <cstdlib>
#include <span>
#include <vector>

#include "base/checksum.h"
#include "base/error.h"
#include "base/files.h"
#include "base/program.h"

namespace ng {
namespace {

struct PreparedText {
  std::string_view name;
  std::vector<std::string> command;  ///< prints the text
  std::string_view package;          ///< Debian package that has the command
  std::string_view begins;           ///< what the text must begin with
  size_t least_bytes;
};

const std::vector<PreparedText>& prepared_texts() {
  // King James Version, one verse a line: "Ge1:1 In the beginning ...".
  static const std::vector<PreparedText> kTexts = {{.name = "kjv",
                                                    .command = {"bible", "-f", "gen1:1-rev22:21"},
                                                    .package = "bible-kjv",
                                                    .begins = "Ge1:1 In the beginning",
                                                    .least_bytes = 4'000'000}};
  return kTexts;
}

const PreparedText* find(std::string_view name) {
  const auto found = std::find_if(prepared_texts().begin(), prepared_texts().end(),
                                  [&](const PreparedText& text) { return text.name == name; });
  return found == prepared_texts().end() ? nullptr : &*found;
}

bool is_whole(const PreparedText& text, std::string_view content) {
  return content.size() >= text.least_bytes && content.starts_with(text.begins);
}

std::string checksum_path(const std::string& text) { return text + ".xxh3_128"; }

std::string checksum_of_text(std::string_view text) {
  return checksum_of(std::as_bytes(std::span(text))) + "\n";
}

/// Whether the file is what prepare_text wrote, to the byte.
bool is_as_prepared(const std::string& path) {
  constexpr size_t kMostBytes = 100;
  if (!is_file(path) || !is_file(checksum_path(path))) return false;
  if (file_size(checksum_path(path)) > kMostBytes) return false;
  const MappedFile text(path);
  return read_file(checksum_path(path), kMostBytes) == checksum_of(text.bytes()) + "\n";
}

}  // namespace

bool is_prepared_text(std::string_view name) { return find(name) != nullptr; }

std::string prepared_text_names() {
  std::string names;
  for (const PreparedText& text : prepared_texts()) {
    names += fmt::format("{}{}", names.empty() ? "" : " ", text.name);
  }
  return names;
}

std::string cache_folder() {
  for (const auto& [variable, below] :
       {std::pair{"XDG_CACHE_HOME", "narrowgauge"}, std::pair{"HOME", ".cache/narrowgauge"}}) {
    const char* folder = std::getenv(variable);
    if (folder != nullptr && folder[0] == '/') return join_path(folder, below);
  }
  throw Error({.key = "XDG_CACHE_HOME",
               .problem = "neither it nor HOME is set, so there is no cache folder",
               .remedy = "set one of them to an absolute path"});
}

std::string prepare_text(std::string_view name) {
  const PreparedText* text = find(name);
  NG_CHECK(text != nullptr, name);
  const std::string path = join_path(cache_folder(), fmt::format("{}.txt", name));
  if (is_as_prepared(path)) return path;
  constexpr size_t kMaxBytes = 256 << 20;
  const ProgramResult result = run_program(text->command, kMaxBytes);
  const std::string remedy = fmt::format("apt-get install {}", text->package);
  if (!result.found) {
    throw Error({.key = std::string(name),
                 .problem = fmt::format("the program \"{}\" is not installed", text->command[0]),
                 .remedy = remedy});
  }
  if (result.exit_code != 0 || !is_whole(*text, result.output)) {
    throw Error({.key = std::string(name),
                 .problem = fmt::format("\"{}\" ended with code {} after {} bytes of text",
                                        text->command[0], result.exit_code, result.output.size()),
                 .remedy = remedy});
  }
  const NewFolders folders(cache_folder());
  write_file_atomically(path, result.output);
  write_file_atomically(checksum_path(path), checksum_of_text(result.output));
  return path;
}

}  // namespace ng
