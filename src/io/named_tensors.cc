#include "io/named_tensors.h"

#include <algorithm>
#include <iterator>
#include <tuple>
#include <utility>

#include "base/error.h"
#include "base/json.h"
#include "base/nearest.h"
#include "io/tensor_files.h"

namespace ng::io {
namespace {

/// "model.layers.0.up_proj": model, layers, 0, up, proj.
std::vector<std::string_view> words_of(std::string_view name) {
  std::vector<std::string_view> words;
  for (size_t begin = 0, end = 0; begin <= name.size(); begin = end + 1) {
    end = std::min(name.find_first_of("._", begin), name.size());
    words.push_back(name.substr(begin, end - begin));
  }
  return words;
}

/// Names that share more words with `name` before others, then those that are spelled more like it:
/// "blocks.0.mlp.up.weight" is a model's "model.layers.0.mlp.up_proj.weight".
std::vector<std::string> nearest_first(std::string_view name,
                                       std::span<const SafetensorsEntry> entries) {
  const std::vector<std::string_view> wanted = words_of(name);
  std::vector<std::tuple<std::ptrdiff_t, int, size_t>> order;
  for (const SafetensorsEntry& entry : entries) {
    const std::vector<std::string_view> words = words_of(entry.name);
    const auto missing = std::ranges::count_if(wanted, [&](std::string_view word) {
      return std::ranges::find(words, word) == words.end();
    });
    order.emplace_back(missing, edit_distance(name, entry.name), order.size());
  }
  std::ranges::sort(order);
  std::vector<std::string> names;
  for (const auto& [missing, distance, index] : order) names.push_back(entries[index].name);
  return names;
}

}  // namespace

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
  const std::vector<std::string> all = nearest_first(name, entries);
  std::string names;
  for (const std::string& known : std::span(all).first(std::min(all.size(), kShown)))
    names += (names.empty() ? "" : ", ") + brief(Json(known));
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
