// What the tensors of a PEFT folder make of the parameters of its base.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>

#include "io/hf/peft_config.h"
#include "io/safetensors.h"
#include "model/config.h"

namespace ng::io {

/// Of one parameter; null: nothing of the kind.
struct PeftChange {
  const SafetensorsEntry* whole = nullptr;  ///< is in place of the base's values
  /// Of a linear layer A (r, in) and B (out, r); of a table of embeddings (r, rows), (width, r).
  const SafetensorsEntry *a = nullptr, *b = nullptr;
  const SafetensorsEntry* magnitude = nullptr;  ///< DoRA's
  const SafetensorsEntry* added = nullptr;      ///< to a bias, times `scale`: that of B
  bool is_table = false;
  int64_t rank = 0;
  double alpha = 0;
  double scale = 0;  ///< of B·A
};

/// The tensors by the parameter that they change. Tensors decide, as for PEFT's loader: a whole
/// matrix counts whether modules_to_save, bias or an embedding of another size has put it there.
class PeftTensors {
 public:
  /// Throws Error naming file and tensor for what is missing, of another shape or of no parameter
  /// of a model like `base`.
  PeftTensors(const std::string& folder, const ModelConfig& base);

  /// Of base and adapters together: the base's, but for a head that is no longer tied to the
  /// embedding, since one of the two has changed alone, and for the rows that both may have anew.
  [[nodiscard]] const ModelConfig& config() const { return config_; }
  /// Of parameter `index` of parameter_table(config()); null: it is the base's.
  [[nodiscard]] const PeftChange* change_of(size_t index) const;

 private:
  /// What there is of one parameter, by its name without the architecture's prefix.
  struct Found {
    PeftChange change{};
    std::string module{};                     ///< as it is called in the file
    const SafetensorsEntry* first = nullptr;  ///< of its tensors
  };

  void require_modules() const;
  void sort();
  void take(const SafetensorsEntry& entry);
  void settle_embedding_and_head();
  void share_or_untie(Found* embedding, Found* head);
  void match();
  void check(Found& found, const ParameterSpec& spec) const;
  void check_adapter(const Found& found, const ParameterSpec& spec) const;
  void require_saved(const std::string& parameter) const;
  [[nodiscard]] Found* find(const std::string& parameter);
  void require(const SafetensorsEntry* entry, const Found& found, std::string_view end) const;

  PeftConfig peft_;
  Safetensors file_;
  ModelConfig config_;
  std::map<std::string, Found, std::less<>> found_;
  std::map<size_t, PeftChange> changes_;
};

}  // namespace ng::io
