// A config.json of any content is refused by ng::Error or gives a config that reads back as itself.
#include <string_view>

#include "base/error.h"
#include "base/json.h"
#include "io/hf/folder.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using ng::io::parse_hf_config;
  ng::ModelConfig config;
  try {
    const std::string_view text(reinterpret_cast<const char*>(data), size);
    config = parse_hf_config(ng::parse_json(text, "config.json"), "config.json");
  } catch (const ng::Error&) {
    return 0;
  }
  const std::string written = ng::io::hf_config_text(config, "float32");
  NG_CHECK(parse_hf_config(ng::parse_json(written, "written"), "written") == config, written);
  return 0;
}
