// A model as other programs take it: what `narrowgauge export` does.
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/vector.h>

#include <fmt/ranges.h>

#include <algorithm>

#include "base/error.h"
#include "bind.h"
#include "io/gguf/export.h"
#include "io/hf/export.h"
#include "tools/export_model.h"

namespace ng::python {
namespace {

[[noreturn]] void refuse(const char* key, const std::string& problem, const std::string& remedy) {
  throw Error({.place = "", .key = key, .problem = problem, .remedy = remedy});
}

void require_type(const char* key, const std::string& type, const std::vector<std::string>& known) {
  if (std::find(known.begin(), known.end(), type) != known.end()) return;
  refuse(key, "\"" + type + "\"", fmt::format("{}", fmt::join(known, " ")));
}

/// Throws Error for words that are none, and for keywords that go with the other kind.
void check(const ExportRequest& request) {
  require_word("to", request.to, {"gguf", "hf"});
  const bool is_gguf = request.to == "gguf";
  require_type("type", request.type, is_gguf ? gguf_export_types() : hf_export_types());
  for (const auto& [pattern, type] : request.keep) require_type("keep", type, gguf_export_types());
  if (!is_gguf && !request.keep.empty()) refuse("keep", "goes with to=\"gguf\"", "");
  if (is_gguf && request.block) refuse("block", "goes with to=\"hf\"", "");
  if (is_gguf && request.share_scales) refuse("share_scales", "goes with to=\"hf\"", "");
  if (!request.trained && !request.recipe.empty())
    refuse("recipe", "goes with weights=\"trained\"", "");
  constexpr int kMost = 1 << 20;
  const auto fits = [](int size) { return size > 0 && size <= kMost; };
  if (request.block && (!fits(request.block->first) || !fits(request.block->second)))
    refuse("block", fmt::format("({}, {})", request.block->first, request.block->second),
           fmt::format("rows and columns from 1 to {}", kMost));
}

std::vector<std::string> exported(ExportRequest request, int64_t threads) {
  request.threads = threads_of(threads);
  check(request);
  const Unlocked unlocked;
  return as_call([&] { return export_model(request).notes; });
}

}  // namespace

void add_export(nb::module_& module) {
  module.def(
      "export_model",
      [](const std::string& model, const std::string& base, const std::string& out,
         const std::string& to, const std::string& type, bool trained, const std::string& recipe,
         std::vector<std::pair<std::string, std::string>> keep,
         const std::optional<std::pair<int, int>>& block, bool share_scales, int64_t threads) {
        return exported({.model = model,
                         .out = out,
                         .base = base,
                         .to = to,
                         .type = type,
                         .keep = std::move(keep),
                         .trained = trained,
                         .recipe = recipe,
                         .block = block,
                         .share_scales = share_scales,
                         .threads = {}},
                        threads);
      },
      "model"_a, "base"_a, "out"_a, "to"_a, "type"_a, "trained"_a, "recipe"_a, "keep"_a,
      "block"_a.none(), "share_scales"_a, "threads"_a,
      "What the user should know of what was written.");
}

}  // namespace ng::python
