// Where what a run learns from, and is validated on, comes from.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/json_fwd.h"
#include "data/text_files.h"
#include "data/validation_split.h"

namespace ng {

/// What a run is validated on.
enum class ValidationFrom : uint8_t { nothing, spread, tail, files };
[[nodiscard]] std::string_view name_of(ValidationFrom from);

struct DataOrigin {
  FoundTexts train;
  FoundTexts validation = {};  ///< of data.validation where that names files
  ValidationFrom from = ValidationFrom::nothing;
  int64_t blocks = 0;  ///< of a text, in which the validation part lies
};

/// Of a part cut off from what is trained on.
[[nodiscard]] ValidationFrom origin_of(ValidationSplit split);

/// "64 blocks spread over the text", "the end of the text", "2 files (1.2 MiB)", "nothing"
[[nodiscard]] std::string validation_text(const DataOrigin& origin);
/// What to beware of in its files: those that are both trained on and validated on, and those that
/// are read more than once. A sentence each.
[[nodiscard]] std::vector<std::string> warnings_of(const DataOrigin& origin);
/// {"train": summary_of(), "validation": {"from", "blocks", "files": summary_of()}}, what there is
/// of it.
[[nodiscard]] Json summary_of(const DataOrigin& origin);

}  // namespace ng
