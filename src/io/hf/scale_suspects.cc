#include "io/hf/scale_suspects.h"

#include <algorithm>

#include "io/hf/quantized_tensor.h"
#include "io/hf/scale_names.h"
#include "io/hf/scale_places.h"

namespace ng::io {
namespace {

constexpr std::string_view kWeightEnding = ".weight";

/// Whether f holds for any of the parts of a name between dots.
bool any_part(std::string_view name, const auto& f) {
  for (size_t begin = 0, end = 0; begin <= name.size(); begin = end + 1) {
    end = std::min(name.find('.', begin), name.size());
    if (f(name.substr(begin, end - begin))) return true;
  }
  return false;
}

bool has_scale_part(std::string_view name) {
  return any_part(name, [](std::string_view part) { return reads_as_scale(part); });
}

/// Whether a name is that of what models have beside their matrices.
bool is_ordinary(std::string_view name) {
  constexpr std::string_view kWords[] = {"bias", "norm", "running_", "ln_", "_ln", "lora_"};
  return !has_scale_part(name) && std::ranges::any_of(kWords, [&](std::string_view word) {
    return name.find(word) != std::string_view::npos;
  });
}

/// Whether `word` stands in a part of a name by itself: "q_proj" in "scale_q_proj".
bool has_word(std::string_view part, std::string_view word) {
  if (word.empty()) return false;
  for (size_t at = part.find(word); at != std::string_view::npos; at = part.find(word, at + 1)) {
    const size_t end = at + word.size();
    const bool begins = at == 0 || part[at - 1] == '_';
    if (begins && (end == part.size() || part[end] == '_')) return true;
  }
  return false;
}

/// Whether blocks of `shape`, the last of each row and column shorter, can have so many scales.
bool may_be_blocks(std::span<const int64_t> shape, std::span<const int64_t> scales) {
  if (scales.size() != shape.size()) return false;
  for (size_t d = 0; d < shape.size(); ++d) {
    if (scales[d] < 1 || scales[d] > shape[d]) return false;
    const int64_t block = (shape[d] + scales[d] - 1) / scales[d];
    if ((shape[d] + block - 1) / block != scales[d]) return false;
  }
  return true;
}

/// "p.weight_s" beside "p.weight"
bool goes_on(std::string_view name, std::string_view weight) {
  return name.size() > weight.size() && name.starts_with(weight) &&
         name.find_first_of("_.[", weight.size()) == weight.size();
}

bool may_scale(const SafetensorsEntry& codes, const SafetensorsEntry& scales, bool fits_anyway) {
  const bool has_dtype = is_wide_float(scales) || scales.dtype == "F8_E8M0" || scales.dtype == "U8";
  if (!has_dtype || scales.elements() >= codes.elements()) return false;
  return fits_anyway || plain_places(codes.shape, scales.shape) ||
         may_be_blocks(codes.shape, scales.shape);
}

/// A weight by the parts of its name: "layers.0." "q_proj" ".weight".
struct WeightName {
  std::string whole, stem, around, word;
  bool is_of_module;

  explicit WeightName(const std::string& weight)
      : whole(weight), stem(weight), is_of_module(weight.ends_with(kWeightEnding)) {
    if (is_of_module) stem.resize(stem.size() - kWeightEnding.size());
    around = stem.substr(0, stem.rfind('.') + 1);  // all before the last dot; "" without one
    word = stem.substr(around.size());
  }

  /// Whether a name that begins with `around` may be that of the weight's scale: `is_scale` where a
  /// part of it reads so.
  [[nodiscard]] bool is_beside(const std::string& name, bool is_scale) const {
    if (goes_on(name, whole) || (is_of_module && name.starts_with(stem + "."))) return true;
    if (word.find_first_not_of("0123456789") == std::string::npos)
      return false;  // a place in a list
    const std::string_view rest = std::string_view(name).substr(around.size());
    const auto has_own_word = [&](std::string_view part) { return has_word(part, word); };
    return is_scale ? any_part(rest, has_own_word) : has_word(rest.substr(0, rest.find('.')), word);
  }
};

}  // namespace

ScaleSuspects::ScaleSuspects(const EntriesByName& tensors) : tensors_(tensors) {
  for (const auto& [name, entry] : tensors) {
    const std::string_view all = name;
    if (all.find('.') == std::string_view::npos && reads_as_scale(all) && !is_no_weight(all))
      of_all_.push_back(entry);
    bool has_scale = false;
    for (size_t begin = 0, end = 0; (end = all.find('.', begin)) != all.npos; begin = end + 1) {
      has_scale = has_scale || reads_as_scale(all.substr(begin, end - begin));
      if (has_scale) by_ending_.emplace(all.substr(end + 1), entry);
    }
  }
}

const SafetensorsEntry* ScaleSuspects::of(const SafetensorsEntry& codes, const std::string& weight,
                                          const IsKnown& is_known) const {
  const WeightName own(weight);
  for (const std::string& ending : {own.whole, own.stem}) {
    const auto [begin, end] = by_ending_.equal_range(ending);
    for (auto at = begin; at != end; ++at)
      if (!is_known(at->second->name)) return at->second;
  }
  for (auto at = tensors_.lower_bound(own.around);
       at != tensors_.end() && at->first.starts_with(own.around); ++at) {
    const auto& [name, entry] = *at;
    if (name == codes.name || name == own.whole || is_no_weight(name) || is_ordinary(name))
      continue;
    const bool is_scale = has_scale_part(std::string_view(name).substr(own.around.size()));
    if (own.is_beside(name, is_scale) &&
        may_scale(codes, *entry, is_scale || goes_on(name, own.whole)) && !is_known(name))
      return entry;
  }
  const auto unknown = std::ranges::find_if(
      of_all_, [&](const SafetensorsEntry* entry) { return !is_known(entry->name); });
  return unknown == of_all_.end() ? nullptr : *unknown;
}

}  // namespace ng::io
