// The tensors of a model as numbers: a tensor of codes never becomes numbers without its scales.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "base/error.h"
#include "io/hf/comfy_formats.h"
#include "io/hf/quantized_layout.h"
#include "io/hf/quantized_tensor.h"
#include "io/hf/scale_suspects.h"
#include "io/safetensors.h"

namespace ng::io {

/// Tensors and what is said of them.
struct StoredModel {
  std::vector<SafetensorsEntry> tensors;  ///< of one model, or of one of its files
  std::vector<SafetensorsEntry> beside;   ///< those of other files of the model
  QuantizedLayout layout;
  std::optional<Error> unread_layout;  ///< why a configuration beside them is not read
  std::string missing_file;            ///< of the model, which may hold scales; "": none
  bool is_folder = false;              ///< with a config.json: its matrices are weights
  UnreadModules unread;                ///< comfy_modules() of the files
};

/// Finds codes among tensors, and the scales of each, by every layout that is read.
class CodedTensors {
 public:
  /// Throws Error where a tensor is there twice.
  explicit CodedTensors(StoredModel model);
  CodedTensors(const CodedTensors&) = delete;
  CodedTensors& operator=(const CodedTensors&) = delete;
  ~CodedTensors() = default;

  [[nodiscard]] const std::vector<SafetensorsEntry>& stored() const { return model_.tensors; }
  /// Whether the layout says so, or any of the tensors is codes whose scales are understood.
  [[nodiscard]] bool is_quantized() const { return model_.layout.is_quantized || !parts_.empty(); }
  /// Whether a tensor is a scale of codes that are understood.
  [[nodiscard]] bool is_part(const std::string& name) const { return parts_.contains(name); }
  /// Whether a tensor holds codes whose scales are found.
  [[nodiscard]] bool is_coded(const std::string& name) const { return coded_.contains(name); }

  /// A stored tensor as numbers: codes times their scales, under the name of the weight; others as
  /// they are. Throws Error for codes whose scales are missing, damaged or not understood.
  [[nodiscard]] SafetensorsEntry decoded(const SafetensorsEntry& entry) const;

 private:
  /// A tensor of codes as the weight that it stands for, or what is wrong with its scales.
  struct Coded {
    SafetensorsEntry weight;
    std::optional<Error> refusal;
  };

  void note(const SafetensorsEntry& entry);
  void look_at(const SafetensorsEntry& entry);
  /// Throws Error for narrow floats without a scale that are no numbers by what is beside them.
  void require_numbers(const SafetensorsEntry& entry) const;
  void require_read(const SafetensorsEntry& entry, const std::string& weight) const;
  /// Names that read as scales and begin with a weight's, or are beside it in its module.
  [[nodiscard]] std::vector<std::string> scales_behind(const std::string& weight) const;
  [[nodiscard]] std::vector<std::string> scales_in_module_of(const std::string& weight) const;

  StoredModel model_;
  EntriesByName by_name_;
  std::unique_ptr<const ScaleSuspects> suspects_;
  const SafetensorsEntry* wide_matrix_ = nullptr;    ///< one of the model's, of 16 bits or more
  std::map<std::string, Coded, std::less<>> coded_;  ///< by the name of the codes
  std::set<std::string, std::less<>> parts_;         ///< scales of those
  std::set<std::string, std::less<>> scales_;        ///< all that reads_as_scale()
  std::multimap<std::string, std::string> scales_of_module_;
};

/// The tensors of a model as numbers, under the names of weights.
struct DecodedEntries {
  std::vector<SafetensorsEntry> tensors;  ///< in the order of what is stored
  std::vector<std::string> left_out;      ///< is_no_weight()
};

/// Whether a dtype is that of floats of at most 8 bits, or of integers that codes are packed into.
[[nodiscard]] bool has_dtype_of_codes(const SafetensorsEntry& entry);

/// All of them, without scales. Throws Error as CodedTensors::decoded() does, and where codes stand
/// for a weight that is there itself.
[[nodiscard]] DecodedEntries decode_tensors(const CodedTensors& tensors);

/// A sentence on what is left out, if anything: "left out: 7 input_scale, 2 k_scale: ...".
[[nodiscard]] std::vector<std::string> left_out_note(std::span<const std::string> names);

}  // namespace ng::io
