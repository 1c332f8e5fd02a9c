// Tensors that may be the scales of codes, whatever they are called: by where their names stand to
// that of the codes, and by their shapes.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <string_view>

#include "io/safetensors.h"

namespace ng::io {

using EntriesByName = std::map<std::string, const SafetensorsEntry*, std::less<>>;

/// Finds them among the tensors of a model.
class ScaleSuspects {
 public:
  /// `tensors` must outlive it.
  explicit ScaleSuspects(const EntriesByName& tensors);

  /// The first of them; null: there is none, and the codes may be numbers of their own. `weight`:
  /// what the codes stand for by their name.
  [[nodiscard]] const SafetensorsEntry* of(const SafetensorsEntry& codes,
                                           const std::string& weight) const;

  /// A tensor of floats whose name goes on behind a weight's, as that of another scale may; not one
  /// that `is_known` holds for.
  [[nodiscard]] const SafetensorsEntry* behind(
      const std::string& weight,
      const std::function<bool(const std::string& name)>& is_known) const;

 private:
  const EntriesByName& tensors_;
  /// "layers.0.q.weight" -> "scales.layers.0.q.weight"
  std::multimap<std::string, const SafetensorsEntry*, std::less<>> by_ending_;
  const SafetensorsEntry* of_all_ = nullptr;  ///< in no module
};

}  // namespace ng::io
