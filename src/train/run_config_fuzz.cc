// Any text is a run file or an Error; its resolved text loads back to the same run. What follows a
// line "===" are settings, one a line.
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "train/run_config.h"

namespace {

constexpr std::string_view kSeparator = "\n===\n";

std::vector<std::string> settings_of(std::string_view text) {
  std::vector<std::string> settings;
  while (!text.empty()) {
    const size_t end = text.find('\n');
    settings.emplace_back(text.substr(0, end));
    text = end == std::string_view::npos ? "" : text.substr(end + 1);
  }
  return settings;
}

/// Loads twice: first the input, then what that resolves to, which must be accepted.
void load_twice(std::string_view input) {
  const size_t separator = input.find(kSeparator);
  std::vector<std::string> settings;
  if (separator != std::string_view::npos)
    settings = settings_of(input.substr(separator + kSeparator.size()));
  std::string resolved;
  try {
    resolved =
        ng::RunConfig::parse(input.substr(0, separator), "fuzz.toml", settings).resolved_toml();
  } catch (const ng::Error&) {
    return;
  }
  if (ng::RunConfig::parse(resolved, "fuzz.toml").resolved_toml() != resolved) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  load_twice({reinterpret_cast<const char*>(data), size});
  return 0;
}
