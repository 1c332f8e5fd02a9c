#include "data/data_origin.h"

#include <fmt/format.h>

#include "base/first_of.h"
#include "base/json.h"
#include "base/units.h"

namespace ng {

std::string_view name_of(ValidationFrom from) {
  constexpr std::string_view kNames[] = {"nothing", "spread", "tail", "files"};
  return kNames[static_cast<size_t>(from)];
}

ValidationFrom origin_of(ValidationSplit split) {
  return split == ValidationSplit::spread ? ValidationFrom::spread : ValidationFrom::tail;
}

std::string validation_text(const DataOrigin& origin) {
  switch (origin.from) {
    case ValidationFrom::nothing:
      break;
    case ValidationFrom::spread:
      return origin.blocks == 0 ? "pairs spread over all"
                                : counted(origin.blocks, "block") + " spread over the text";
    case ValidationFrom::tail:
      return origin.blocks == 0 ? "the last pairs" : "the end of the text";
    case ValidationFrom::files:
      return text_of(origin.validation);
  }
  return "nothing";
}

std::vector<std::string> warnings_of(const DataOrigin& origin) {
  constexpr size_t kNamed = 3;
  const FoundTexts& train = origin.train;
  std::vector<std::string> warnings;
  if (const auto shared = shared_files(origin.validation, train); !shared.empty())
    warnings.push_back(
        fmt::format("the validation loss is {}that of texts that are trained on: data.train has {} "
                    "of data.validation too: {}",
                    shared.size() < origin.validation.read.size() ? "in part " : "",
                    counted(std::ssize(shared), "file"), first_of(shared, kNamed)));
  if (const auto repeated = repeated_files(train); !repeated.empty()) {
    const bool cuts = origin.from == ValidationFrom::spread || origin.from == ValidationFrom::tail;
    warnings.push_back(fmt::format(
        "data.train has {} more than once, and reads {} as often{}: {}",
        counted(std::ssize(repeated), "file"), repeated.size() == 1 ? "it" : "them",
        cuts ? "; what one copy validates the other trains on" : "", first_of(repeated, kNamed)));
  }
  return warnings;
}

Json summary_of(const DataOrigin& origin) {
  Json validation = {{"from", name_of(origin.from)}};
  if (origin.blocks > 0) validation["blocks"] = origin.blocks;
  if (origin.from == ValidationFrom::files) validation["files"] = summary_of(origin.validation);
  return {{"train", summary_of(origin.train)}, {"validation", validation}};
}

}  // namespace ng
