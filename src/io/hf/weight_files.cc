#include "io/hf/weight_files.h"

#include <set>

#include "base/error.h"
#include "base/files.h"
#include "base/json.h"
#include "io/hf/names.h"

namespace ng::io {
namespace {

constexpr size_t kMaxIndexBytes = 64 << 20;

/// The files named by an index, each once.
std::vector<std::string> shard_paths(const std::string& folder) {
  std::set<std::string> names;
  for (const auto& [tensor, file] : hf_weight_map(folder)) names.insert(file);
  std::vector<std::string> paths;
  for (const std::string& name : names) {
    paths.push_back(join_path(folder, name));
    if (is_file(paths.back())) continue;
    throw Error({.place = paths.back(),
                 .key = "",
                 .problem = "missing",
                 .remedy = fmt::format("{} names it", kHfIndex)});
  }
  return paths;
}

}  // namespace

std::map<std::string, std::string> hf_weight_map(const std::string& folder) {
  const std::string path = join_path(folder, kHfIndex);
  if (!is_file(path)) return {};
  const Json json = read_json_file(path, kMaxIndexBytes);
  const JsonObject map = JsonObject(json, path).object("weight_map");
  std::map<std::string, std::string> files;
  for (const auto& [tensor, file] : map.value().items()) {
    const std::string name = map.text(tensor);
    if (name.empty() || name.find('/') != std::string::npos)
      map.refuse(tensor, brief(file), "the name of a file in the same folder");
    files.emplace(tensor, name);
  }
  return files;
}

HfWeightFiles hf_weight_files(const std::string& folder) {
  const std::string single = join_path(folder, kHfWeights), index = join_path(folder, kHfIndex);
  if (is_file(single) || !is_file(index)) return {.place = single, .paths = {single}};
  return {.place = index, .paths = shard_paths(folder)};
}

}  // namespace ng::io
