#include "io/named_tensors.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "base/error.h"
#include "base/json.h"
#include "base/nearest.h"
#include "io/tensor_files.h"

namespace ng::io {

NamedTensors::NamedTensors(std::string place) : place_(std::move(place)) {
  for (const std::string& path : tensor_files({place_})) {
    const TensorFile file(path);
    entries_.insert(entries_.end(), file.entries().begin(), file.entries().end());
  }
}

const SafetensorsEntry* NamedTensors::find(std::string_view name) const {
  const auto found = std::ranges::find(entries_, name, &SafetensorsEntry::name);
  return found == entries_.end() ? nullptr : &*found;
}

SafetensorsEntry NamedTensors::at(const std::string& name) const {
  const SafetensorsEntry* first = find(name);
  if (first == nullptr) {
    if (const std::optional<TensorWord> word = parted_word(name))
      return NamedTensors(word->place).at(word->name);
    refuse_unknown_tensor(place_, name, entries_);
  }
  const auto other = std::find_if(entries_.begin() + (first - entries_.data()) + 1, entries_.end(),
                                  [&](const SafetensorsEntry& e) { return e.name == name; });
  if (other == entries_.end()) return *first;
  throw Error({.place = place_,
               .key = brief(Json(name)),
               .problem = fmt::format("is in {} and in {}", first->file, other->file),
               .remedy = fmt::format("one of them: {}:{}", first->file, name)});
}

std::optional<TensorWord> parted_word(const std::string& word) {
  for (size_t colon = word.find(':'); colon != std::string::npos; colon = word.find(':', colon + 1))
    if (const std::string place = word.substr(0, colon); is_file(place) || is_folder(place))
      return TensorWord{.place = place, .name = word.substr(colon + 1)};
  return std::nullopt;
}

void refuse_unknown_tensor(const std::string& place, std::string_view name,
                           std::span<const SafetensorsEntry> entries) {
  constexpr size_t kShown = 8;
  std::vector<std::string> all;
  std::string names;
  for (const SafetensorsEntry& entry : entries) {
    if (all.size() < kShown) names += (all.empty() ? "" : ", ") + brief(Json(entry.name));
    all.push_back(entry.name);
  }
  if (all.size() > kShown) names += fmt::format(" and {} more", all.size() - kShown);
  const std::string kind = is_folder(place) ? "folder" : "file";
  throw Error({.place = place,
               .key = brief(Json(name)),
               .problem = "no such tensor",
               .remedy = names.empty() ? fmt::format("a {} with tensors", kind)
                                       : fmt::format("{}the {} has {}", did_you_mean(name, all),
                                                     kind, names)});
}

}  // namespace ng::io
