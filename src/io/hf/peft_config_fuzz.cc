// An adapter_config.json of any content is refused by ng::Error or says a rank and a scale of each
// module.
#include <cmath>
#include <cstdint>

#include "base/error.h"
#include "io/hf/peft_config.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  try {
    const ng::io::PeftConfig peft =
        ng::io::parse_peft_config({reinterpret_cast<const char*>(data), size}, "file");
    for (const char* module : {"", ".", "lm_head", "model.layers.11.self_attn.q_proj"}) {
      NG_CHECK(peft.rank_of(module) >= 1);
      NG_CHECK(std::isfinite(peft.scale_of(module)));
      (void)peft.saves(module);
    }
  } catch (const ng::Error&) {
    return 0;
  }
  return 0;
}
