// The safetensors files that a command line names: files, folders, patterns.
#pragma once

#include <string>
#include <vector>

#include "io/safetensors.h"

namespace ng::cli {

/// What the words stand for, each file once: a file for itself, a folder for its *.safetensors, a
/// path with * or ? in any of its parts for the files that match. Throws Error where a word stands
/// for no file.
[[nodiscard]] std::vector<std::string> tensor_files(const std::vector<std::string>& words);

/// Whether a word may stand for several files.
[[nodiscard]] bool names_many(const std::string& word);

/// A dtype of floating-point values.
[[nodiscard]] bool is_float(const io::SafetensorsEntry& entry);

/// Whether a tensor holds floats and its name matches the glob.
[[nodiscard]] bool is_wanted(const io::SafetensorsEntry& entry, const std::string& names);

/// Names of those that match and hold none.
[[nodiscard]] std::vector<std::string> skipped_tensors(const io::Safetensors& file,
                                                       const std::string& names);

/// Throws Error: no tensor of the file is wanted.
[[noreturn]] void refuse_without_floats(const io::Safetensors& file, const std::string& names);

/// Notices about tensors, one sentence each: those that are no floats and were skipped.
void note_skipped(const std::string& path, const std::vector<std::string>& names);

}  // namespace ng::cli
