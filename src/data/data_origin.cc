#include "data/data_origin.h"

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

Json summary_of(const DataOrigin& origin) {
  Json validation = {{"from", name_of(origin.from)}};
  if (origin.blocks > 0) validation["blocks"] = origin.blocks;
  if (origin.from == ValidationFrom::files) validation["files"] = summary_of(origin.validation);
  return {{"train", summary_of(origin.train)}, {"validation", validation}};
}

}  // namespace ng
