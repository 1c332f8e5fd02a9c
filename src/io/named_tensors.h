// Tensors as a user names them: NAME of an input, or PLACE:NAME of what else lies on the disk.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "io/safetensors.h"

namespace ng::io {

/// The tensors of what a user names: a file, a folder (of a model, a run, a checkpoint) or a
/// pattern, as tensor_files() reads it.
class NamedTensors {
 public:
  /// Throws Error as tensor_files() and TensorFile do.
  explicit NamedTensors(std::string place);

  [[nodiscard]] const std::string& place() const { return place_; }
  [[nodiscard]] const std::vector<SafetensorsEntry>& entries() const { return entries_; }
  /// The first of this very name; null: none.
  [[nodiscard]] const SafetensorsEntry* find(std::string_view name) const;
  /// NAME of these, or PLACE:NAME. Throws Error where there is none, with those that there are, or
  /// where several files have one.
  [[nodiscard]] SafetensorsEntry at(const std::string& name) const;

 private:
  std::string place_;
  std::vector<SafetensorsEntry> entries_;
};

/// "PLACE:NAME", parted at the first colon behind a path that exists.
struct TensorWord {
  std::string place, name;
};
[[nodiscard]] std::optional<TensorWord> parted_word(const std::string& word);

/// Throws Error: `place` has no tensor `name`; what it has, the likest first, is said.
[[noreturn]] void refuse_unknown_tensor(const std::string& place, std::string_view name,
                                        std::span<const SafetensorsEntry> entries);

}  // namespace ng::io
