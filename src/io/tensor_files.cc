#include "io/tensor_files.h"

#include <algorithm>
#include <set>

#include "base/error.h"
#include "base/files.h"
#include "base/glob.h"
#include "base/nearest.h"
#include "io/gguf/gguf.h"
#include "io/hf/coded_file.h"

namespace ng::io {
namespace {

bool is_pattern(const std::string& word) {
  return word.find_first_of("*?") != std::string::npos && !is_file(word);
}

[[noreturn]] void refuse(const std::string& word, const std::string& problem) {
  throw Error({.place = word,
               .key = "",
               .problem = problem,
               .remedy = "safetensors or GGUF files, a folder or a pattern"});
}

std::vector<std::string> files_of(const std::string& word) {
  if (word.empty()) refuse("FILES", "an empty path");
  const bool folder = is_folder(word);
  if (!folder && !is_pattern(word)) return {word};
  std::vector<std::string> files;
  if (folder) {  // its own name is no pattern, whatever is in it
    for (const std::string& name : list_folder(word))
      if (glob_matches("*.safetensors", name) && is_file(join_path(word, name)))
        files.push_back(join_path(word, name));
  } else {
    files = matching_files(word);
  }
  if (files.empty()) refuse(word, folder ? "no file matches *.safetensors" : "no file matches it");
  return files;
}

/// A file for itself; of a GGUF model in several files the first, which opens all of them.
std::string first_part(const std::string& file) {
  const bool may_be_part = glob_matches("*-of-?????.gguf", file) && is_gguf(file);
  return may_be_part ? Gguf(file).path() : file;
}

}  // namespace

TensorFile::TensorFile(const std::string& path)
    : path_(path), entries_(is_gguf(path) ? Gguf(path).entries() : open_decoded(path).entries()) {}

bool names_many(const std::string& word) { return is_folder(word) || is_pattern(word); }

std::vector<std::string> tensor_files(const std::vector<std::string>& words) {
  std::vector<std::string> files;
  std::set<std::string> known;
  for (const std::string& word : words)
    for (const std::string& file : files_of(word))
      if (const auto [first, is_new] = known.insert(first_part(file)); is_new)
        files.push_back(*first);
  return files;
}

bool is_float(const SafetensorsEntry& entry) {
  const GgufTensorType* type = find_gguf_type(entry.dtype);
  return entry.dtype[0] == 'F' || (type != nullptr && entry.dtype[0] != 'I');
}

bool is_wanted(const SafetensorsEntry& entry, const std::string& names) {
  return is_float(entry) && glob_matches(names, entry.name);
}

std::vector<std::string> skipped_tensors(const TensorFile& file, const std::string& names) {
  std::vector<std::string> skipped;
  for (const SafetensorsEntry& entry : file.entries())
    if (!is_float(entry) && glob_matches(names, entry.name)) skipped.push_back(entry.name);
  return skipped;
}

namespace {

/// A pattern for what somebody may have meant by one that matches nothing.
std::string near_pattern_of(const std::string& names, const TensorFile& file) {
  std::vector<std::string> floats;
  for (const SafetensorsEntry& entry : file.entries())
    if (is_float(entry)) floats.push_back(entry.name);
  const std::string wider = fmt::format("*{}*", names);
  const auto count = std::count_if(floats.begin(), floats.end(), [&](const std::string& name) {
    return glob_matches(wider, name);
  });
  if (count > 0) return fmt::format("\"{}\", which means {} of {}", wider, count, floats.size());
  return did_you_mean(names, floats) + "--tensor with a pattern that one matches";
}

}  // namespace

void refuse_without_floats(const TensorFile& file, const std::string& names) {
  const size_t count = file.entries().size();
  const bool has_floats = std::any_of(file.entries().begin(), file.entries().end(), is_float);
  throw Error({.place = file.path(),
               .key = "",
               .problem = has_floats ? fmt::format("no float tensor matches \"{}\"", names)
                                     : fmt::format("no float tensor among its {}", count),
               .remedy = has_floats ? near_pattern_of(names, file)
                                    : "a file with tensors of floating-point values"});
}

}  // namespace ng::io
