#include "cli/tensors/file_flags.h"

#include "base/text.h"
#include "cli/output.h"
#include "model/weights.h"
#include "recipe/layer_names.h"

namespace ng::cli {

void FileFlags::declare(Flags flags, const std::string& tensors) {
  flags.option("IN", in, "file with " + tensors + ", or a model or a run that has them by name")
      .required();
  flags.option("OUT", out, "safetensors file to write").required();
  add_recipe(flags, recipe).required();
}

void FileFlags::declare_weight(Flags flags) {
  flags.option("--weight NAME", weight,
               "tensor that is the weight, of IN; or PLACE:NAME, of another file or folder");
}

void FileFlags::declare_grad(Flags flags, const std::string& several) {
  const std::string help = "tensor that is the gradient";
  if (several.empty())
    flags.option("--grad NAME", grads, help).list(1);
  else
    flags.option("--grad NAME,NAME", grads, help + ", or one for each of several " + several)
        .list();
}

void FileFlags::declare_direction(Flags flags) {
  flags.option("--direction NAME", direction, "tensor that is the direction");
}

Recipe FileFlags::read_recipe() const {
  Recipe read = Recipe::load(recipe);
  require_known_patterns(read);
  return read;
}

TensorNames FileFlags::names() const {
  TensorNames names;
  if (!weight.empty()) names["weight"] = {weight};
  if (!direction.empty()) names["direction"] = {direction};
  if (!grads.empty()) names["grad"] = grads;
  return names;
}

void FileFlags::declare_machine(Flags flags, const std::string& json_help) {
  machine.declare(flags);
  flags.flag("--json", json, json_help);
}

void note_turned(bool is_turned, const std::string& parameter) {
  if (is_turned)
    note(
        fmt::format("{}: the file has it as (inputs, outputs), and it is taken so: rows are "
                    "inputs here, blocks lie along outputs",
                    parameter));
}

void note_unmet_overrides(const Recipe& recipe, const std::string& layer, int64_t blocks) {
  const int64_t depth = blocks > 0 ? blocks : layers::place_of(layer).block + 1;
  int64_t overrides = 0;
  for (const RecipeMatch& match : recipe.matches({.names = {layer}, .depth = depth})) {
    if (!match.key.starts_with("override")) continue;
    if (!match.layers.empty()) return;
    ++overrides;
  }
  if (overrides > 0)
    note(fmt::format("{}: {} has {}, none of which means it", layer, on_one_line(recipe.name()),
                     counted(overrides, "override")));
}

void add_step_and_tensor(Flags flags, uint32_t& step, const std::string& step_of_what,
                         uint32_t& tensor) {
  flags.setting("--step", step, step_of_what).range(0, (int64_t{1} << 32) - 1);
  flags.setting("--tensor-id", tensor, "of random draws").range(0, (int64_t{1} << 20) - 1);
}

void add_layer(Flags flags, std::string& layer, const std::string& of_what, int64_t& blocks) {
  flags.option(
      "--layer NAME", layer,
      of_what + ": its overrides apply; else that of the weight's name, or blocks.0.mlp.up");
  flags.option("--blocks", blocks, "of the model, for overrides; the layer's is the last")
      .range(1, int64_t{1} << 30);
}

}  // namespace ng::cli
