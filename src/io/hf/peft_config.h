// adapter_config.json of a PEFT folder: what beside A and B makes the weights. Which modules have
// an adapter its tensors say: target_modules, exclude_modules, layers_to_transform and
// layers_pattern are not read. [PEFT 0.21, tuners/lora/config.py]
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tokenizer/name_pattern.h"

namespace ng::io {

struct PeftConfig {
  std::string place;  ///< the file, for errors
  std::string base;   ///< base_model_name_or_path; empty: none
  int64_t rank = 0;   ///< r
  double alpha = 0;   ///< lora_alpha
  /// Others, for modules whose names a pattern matches: the first that does counts.
  std::vector<std::pair<NamePattern, int64_t>> ranks;
  std::vector<std::pair<NamePattern, double>> alphas;
  bool divides_by_root = false;            ///< use_rslora
  bool is_decomposed = false;              ///< use_dora
  bool has_biases = false;                 ///< lora_bias: B has one
  bool keeps_ties = false;                 ///< ensure_weight_tying
  std::vector<std::string> saved_modules;  ///< modules_to_save: ends of their names

  /// Of the adapter of a module, by its whole name.
  [[nodiscard]] int64_t rank_of(std::string_view module) const;
  [[nodiscard]] double alpha_of(std::string_view module) const;
  /// Of B·A: alpha/r, or alpha/√r.
  [[nodiscard]] double scale_of(std::string_view module) const;
  /// Whether a name of saved_modules means a module, or one that it lies in.
  [[nodiscard]] static bool means(std::string_view saved, std::string_view module);
  /// Whether a module, or one that it lies in, is trained and saved whole.
  [[nodiscard]] bool saves(std::string_view module) const;
};

/// Throws Error naming file and key for what is missing, mistyped or out of range, and for keys
/// that mean another weight than what PeftConfig says.
[[nodiscard]] PeftConfig read_peft_config(const std::string& folder);
/// The same of the file's text; `place` is for errors.
[[nodiscard]] PeftConfig parse_peft_config(const std::string& text, const std::string& place);

}  // namespace ng::io
