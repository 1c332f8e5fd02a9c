// Tensors that may be the scales of codes, whatever they are called: by where their names stand to
// that of the codes, and by their shapes.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "io/safetensors.h"

namespace ng::io {

using EntriesByName = std::map<std::string, const SafetensorsEntry*, std::less<>>;

/// Finds them among the tensors of a model.
class ScaleSuspects {
 public:
  /// `tensors` must outlive it.
  explicit ScaleSuspects(const EntriesByName& tensors);

  using IsKnown = std::function<bool(const std::string& name)>;

  /// The first of them that `is_known` does not hold for; null: there is none, and the codes may be
  /// numbers of their own, or have all their scales. `weight`: what they stand for by their name.
  [[nodiscard]] const SafetensorsEntry* of(const SafetensorsEntry& codes, const std::string& weight,
                                           const IsKnown& is_known) const;

 private:
  const EntriesByName& tensors_;
  /// "layers.0.q.weight" -> "scales.layers.0.q.weight"
  std::multimap<std::string, const SafetensorsEntry*, std::less<>> by_ending_;
  std::vector<const SafetensorsEntry*> of_all_;  ///< in no module
};

}  // namespace ng::io
