// What formats make of the tensors of files.
#include <nanobind/stl/vector.h>

#include <algorithm>

#include "base/error.h"
#include "base/files.h"
#include "base/json.h"
#include "base/text.h"
#include "bind.h"
#include "data/token_file.h"
#include "io/tensor_files.h"
#include "recipe/cast_words.h"
#include "report/model_summary.h"
#include "tools/inspection.h"

namespace ng::python {
namespace {

/// What is tried on every tensor.
struct Casts {
  std::vector<std::string> names;
  std::vector<Operand> casts;

  explicit Casts(std::vector<std::string> formats) : names(std::move(formats)) {
    if (names.empty()) names = split_at_commas(kInspectedFormats);
    for (const std::string& name : names) casts.push_back(cast_named(name));
  }
};

Json tensor_json(const io::SafetensorsEntry& entry, const Casts& tried, Threads threads) {
  const TensorProgress look = [](double) { look_for_signals(); };
  const TensorFacts facts = facts_of(entry, threads, look);
  std::vector<RuleTrials> trials;
  for (size_t i = 0; i < tried.names.size(); ++i)
    trials.push_back(
        try_format(entry, {.name = tried.names[i], .cast = tried.casts[i]}, threads, look));
  return inspection_json(entry, facts, trials);
}

std::string_view name_of(TokenFileKind kind) {
  for (const auto& [name, known] : kTokenFileKinds)
    if (known == kind) return name;
  return "";
}

/// How many ids there are, and how they lie.
Json token_file_json(const std::string& path) {
  const ReadFile file(path);
  std::string begin(std::min(file.size(), kTokenHeaderBytes), '\0');
  file.read(0, std::as_writable_bytes(std::span(begin)));
  const TokenFileLayout layout = parse_token_layout(begin, file.size(), false, path);
  return {{"kind", name_of(layout.kind)},
          {"tokens", layout.tokens},
          {"bytes_per_id", layout.width},
          {"has_mask", layout.mask.has_value()},
          {"vocab", layout.vocab ? Json(*layout.vocab) : Json()}};
}

/// As `narrowgauge inspect --json`, and what the headers of token files say.
Json inspect(const std::vector<std::string>& words, const Casts& tried, const std::string& names,
             Threads threads) {
  if (words.empty())
    throw Error(
        {.place = "", .key = "path", .problem = "no files", .remedy = "files, folders, patterns"});
  Json files = Json::array();
  bool is_empty = true;
  const std::vector<std::string> paths = io::tensor_files(words);
  std::vector<std::string> with_tensors;
  for (const std::string& path : paths) {
    if (is_token_file(path)) {
      files.push_back({{"file", path}, {"token_file", token_file_json(path)}});
      is_empty = false;
      continue;
    }
    const io::TensorFile file(path);
    with_tensors.push_back(path);
    Json tensors = Json::array();
    for (const io::SafetensorsEntry& entry : file.entries())
      if (io::is_wanted(entry, names)) tensors.push_back(tensor_json(entry, tried, threads));
    is_empty = is_empty && tensors.empty();
    files.push_back({{"file", path}, {"tensors", std::move(tensors)}});
  }
  if (is_empty) io::refuse_without_floats(io::TensorFile(paths.front()), names);
  Json inspected = {{"files", std::move(files)}};
  if (!with_tensors.empty()) inspected["model"] = report::json_of(report::summary_of(with_tensors));
  return inspected;
}

}  // namespace

void add_inspect(nb::module_& module) {
  module.def(
      "inspect",
      [](const std::vector<std::string>& paths, std::vector<std::string> formats,
         const std::string& tensors, int64_t threads) {
        const Threads workers = threads_of(threads);
        Json json;
        {
          const Unlocked unlocked;
          json = inspect(paths, Casts(std::move(formats)), tensors, workers);
        }
        return dict_of(json);
      },
      "paths"_a, "formats"_a, "tensors"_a, "threads"_a);
}

}  // namespace ng::python
