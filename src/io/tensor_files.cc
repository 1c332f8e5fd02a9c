#include "io/tensor_files.h"

#include <algorithm>
#include <set>

#include "base/error.h"
#include "base/files.h"
#include "base/glob.h"
#include "base/nearest.h"
#include "io/checkpoint_files.h"
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

// Its own name is no pattern, whatever is in it.
std::vector<std::string> safetensors_in(const std::string& folder) {
  std::vector<std::string> files;
  for (const std::string& name : list_folder(folder))
    if (glob_matches("*.safetensors", name) && is_file(join_path(folder, name)))
      files.push_back(join_path(folder, name));
  return files;
}

// Of a run: those of its model, or, before there is one, of its newest checkpoint.
std::vector<std::string> files_of_folder(const std::string& folder) {
  std::vector<std::string> files = safetensors_in(folder);
  if (!files.empty()) return files;
  if (const std::string model = join_path(folder, "model"); is_folder(model))
    files = safetensors_in(model);
  const std::vector<CheckpointEntry> saved = list_checkpoints(join_path(folder, "checkpoints"));
  return files.empty() && !saved.empty() ? safetensors_in(saved.front().path) : files;
}

std::vector<std::string> files_of(const std::string& word) {
  if (word.empty()) refuse("FILES", "an empty path");
  const bool folder = is_folder(word);
  if (!folder && !is_pattern(word)) return {word};
  const std::vector<std::string> files = folder ? files_of_folder(word) : matching_files(word);
  if (files.empty()) refuse(word, folder ? "no file matches *.safetensors" : "no file matches it");
  return files;
}

/// A file for itself; of a GGUF model in several files the first, which opens all of them.
std::string first_part(const std::string& file) {
  const bool may_be_part = glob_matches("*-of-?????.gguf", file) && is_gguf(file);
  return may_be_part ? Gguf(file).path() : file;
}

std::vector<std::string> floats_of(const TensorFile& file) {
  std::vector<std::string> names;
  for (const SafetensorsEntry& entry : file.entries())
    if (is_float(entry)) names.push_back(entry.name);
  return names;
}

/// The names, and patterns for what has words of one in common, the longest first: of "a.b.c"
/// "*.b.c", "a.b.*", "*.b.*", "a.*" and "*.c".
std::vector<std::string> patterns_for(const std::vector<std::string>& names) {
  std::set<std::string> parts;
  for (const std::string& name : names) {
    std::vector<size_t> begins = {0};  // of its words
    for (size_t dot = name.find('.'); dot != name.npos; dot = name.find('.', dot + 1))
      begins.push_back(dot + 1);
    for (const size_t begin : begins) {
      const std::string before = begin == 0 ? "" : "*.";
      for (const size_t next : begins)
        if (next > begin) parts.insert(before + name.substr(begin, next - begin) + "*");
      if (begin > 0) parts.insert(before + name.substr(begin));
    }
  }
  std::vector<std::string> patterns = names;
  patterns.insert(patterns.end(), parts.begin(), parts.end());
  std::stable_sort(patterns.begin() + std::ssize(names), patterns.end(),
                   [](const std::string& a, const std::string& b) { return a.size() > b.size(); });
  return patterns;
}

/// A pattern for what somebody may have meant by one that matches nothing.
std::string near_pattern_of(const std::string& names, const TensorFile& file) {
  const std::vector<std::string> floats = floats_of(file);
  const std::string wider = fmt::format("*{}*", names);
  const auto count = std::count_if(floats.begin(), floats.end(), [&](const std::string& name) {
    return glob_matches(wider, name);
  });
  if (count > 0) return fmt::format("\"{}\", which means {} of {}", wider, count, floats.size());
  return fmt::format("{}a pattern that one matches, as \"{}\"",
                     did_you_mean(names, patterns_for(floats)), floats.front());
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
