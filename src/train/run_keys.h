// The keys of the run file, one row each.
#pragma once

#include "base/keys.h"
#include "train/run_config.h"

namespace ng {

inline constexpr int64_t kMaxSteps = 99'999'999;  ///< checkpoint names hold eight digits

[[nodiscard]] const Keys<RunConfig>& run_keys();

/// A key that run files did not always have, and what a run of before then did.
struct OlderDefault {
  std::string_view key;
  void (*put)(RunConfig& config);
};
inline constexpr OlderDefault kOlderDefaults[] = {
    {"data.validation_split",
     [](RunConfig& config) { config.data.validation_split = ValidationSplit::tail; }},
};

/// Those of [lora].
void add_lora_keys(Keys<RunConfig>& keys);

}  // namespace ng
