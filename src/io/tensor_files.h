// The safetensors and GGUF files that words of a user stand for (files, folders, patterns), and
// which of their tensors hold floats.
#pragma once

#include <string>
#include <vector>

#include "io/safetensors.h"

namespace ng::io {

/// A file of tensors, opened: safetensors or GGUF, by its content. Codes are what they stand for:
/// open_decoded().
class TensorFile {
 public:
  /// Throws Error as Safetensors or Gguf do.
  explicit TensorFile(const std::string& path);

  [[nodiscard]] const std::string& path() const { return path_; }
  [[nodiscard]] const std::vector<SafetensorsEntry>& entries() const { return entries_; }

 private:
  std::string path_;
  std::vector<SafetensorsEntry> entries_;
};

/// What the words stand for, each file once: a file for itself, a folder for its *.safetensors, a
/// run's for its model's or, before there is one, for its newest checkpoint's; a path with * or ?
/// in any of its parts for the files that match; of a GGUF model in several files the first stands
/// for all. Throws Error where a word stands for no file.
[[nodiscard]] std::vector<std::string> tensor_files(const std::vector<std::string>& words);

/// Whether a word may stand for several files.
[[nodiscard]] bool names_many(const std::string& word);

/// A dtype of floating-point values, or of GGUF's blocks of values.
[[nodiscard]] bool is_float(const SafetensorsEntry& entry);

/// Whether a tensor holds floats and its name matches the glob.
[[nodiscard]] bool is_wanted(const SafetensorsEntry& entry, const std::string& names);

/// Names of those that match and hold none.
[[nodiscard]] std::vector<std::string> skipped_tensors(const TensorFile& file,
                                                       const std::string& names);

/// Throws Error: no tensor of the file is wanted.
[[noreturn]] void refuse_without_floats(const TensorFile& file, const std::string& names);

}  // namespace ng::io
