// Models in several files, "NAME-00001-of-00003.gguf": keys and some of the tensors in the first,
// the rest of them in the others. [llama.cpp tools/gguf-split, src/llama-model-loader.cpp]
#include <fmt/format.h>

#include <cstdint>
#include <set>

#include "base/error.h"
#include "base/files.h"
#include "io/gguf/gguf.h"

namespace ng::io {
namespace {

constexpr std::string_view kPartCount = "split.count";
constexpr std::string_view kPartNumber = "split.no";              // from 0 on
constexpr std::string_view kPartTensors = "split.tensors.count";  // of all parts together

std::string part_ending(int64_t number, int64_t count) {
  return fmt::format("-{:05}-of-{:05}.gguf", number + 1, count);
}

/// The paths of all parts, by that of one.
std::vector<std::string> part_paths(const Gguf& part, int64_t count) {
  const int64_t number = part.integer(kPartNumber, 0, count - 1);
  const std::string ending = part_ending(number, count);
  if (!part.path().ends_with(ending))
    part.refuse(
        kPartCount,
        fmt::format("this is part {} of {}, and its name does not say so", number + 1, count),
        fmt::format("a name that ends in \"{}\", all parts in one folder", ending));
  const std::string name = part.path().substr(0, part.path().size() - ending.size());
  std::vector<std::string> paths;
  for (int64_t i = 0; i < count; ++i) paths.push_back(name + part_ending(i, count));
  return paths;
}

void require_parts(const Gguf& part, const std::vector<std::string>& paths) {
  constexpr size_t kShown = 16;
  std::vector<std::string> missing;
  for (const std::string& path : paths)
    if (!is_file(path)) missing.push_back(path);
  if (missing.empty()) return;
  const size_t count = missing.size();
  missing.resize(std::min(count, kShown));
  const std::string more = count > kShown ? fmt::format(" and {} more", count - kShown) : "";
  part.refuse(kPartCount,
              fmt::format("of {} parts {} missing: {}{}", paths.size(),
                          count == 1 ? "one is" : fmt::format("{} are", count),
                          fmt::join(missing, " "), more),
              "all parts in one folder");
}

/// Refuses a file that has the name of part `number` and is another.
void require_part(const Gguf& part, int64_t number, int64_t count) {
  const auto require = [&](std::string_view key, int64_t value) {
    const int64_t own = part.integer(key, 0, UINT16_MAX);
    if (own != value)
      part.refuse(key, fmt::format("{}", own), fmt::format("{}, by its name", value));
  };
  require(kPartCount, count);
  require(kPartNumber, number);
}

}  // namespace

std::vector<Gguf> Gguf::parts() const {
  const int64_t count = integer_or(kPartCount, 0, UINT16_MAX, 0);
  std::vector<Gguf> parts;
  if (count <= 1) return parts;
  const std::vector<std::string> paths = part_paths(*this, count);
  require_parts(*this, paths);
  for (int64_t i = 0; i < count; ++i) {
    parts.push_back(alone(paths[static_cast<size_t>(i)]));
    require_part(parts.back(), i, count);
  }
  return parts;
}

void Gguf::join(std::vector<Gguf> parts) {
  if (!parts.empty()) *this = std::move(parts.front());
  std::set<std::string> names;
  for (const SafetensorsEntry& entry : entries_) names.insert(entry.name);
  for (size_t i = 1; i < parts.size(); ++i) {
    paths_.push_back(parts[i].path());
    for (SafetensorsEntry& entry : parts[i].entries_) {
      if (!names.insert(entry.name).second)
        entry.refuse("is there twice", "each tensor in one of the parts");
      entries_.push_back(std::move(entry));
    }
  }
  const auto count = std::ssize(entries_);
  const int64_t said = integer_or(kPartTensors, 0, INT32_MAX, count);
  if (said != count)
    refuse(kPartTensors, fmt::format("{}", said),
           fmt::format("{}, which {}", count,
                       paths_.size() > 1 ? "the parts have together" : "this file has"));
}

}  // namespace ng::io
