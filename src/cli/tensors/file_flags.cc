#include "cli/tensors/file_flags.h"

namespace ng::cli {

void FileFlags::declare(Flags flags, const std::string& tensors) {
  flags.option("IN", in, "safetensors file with " + tensors).required();
  flags.option("OUT", out, "safetensors file to write").required();
  flags.option("--recipe", recipe, "recipe, a name or a file").required();
}

void FileFlags::declare_machine(Flags flags, const std::string& json_help) {
  machine.declare(flags);
  flags.flag("--json", json, json_help);
}

void add_step_and_tensor(Flags flags, uint32_t& step, const std::string& step_of_what,
                         uint32_t& tensor) {
  flags.setting("--step", step, step_of_what).range(0, (int64_t{1} << 32) - 1);
  flags.setting("--tensor-id", tensor, "of random draws").range(0, (int64_t{1} << 20) - 1);
}

void add_layer(Flags flags, std::string& layer, const std::string& of_what, int64_t& blocks) {
  flags.setting("--layer NAME", layer, of_what + ": its overrides apply");
  flags.option("--blocks", blocks, "of the model, for overrides; the layer's is the last")
      .range(1, int64_t{1} << 30);
}

}  // namespace ng::cli
