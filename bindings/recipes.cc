// Recipes by name, file or text.
#include <nanobind/stl/vector.h>

#include "bind.h"
#include "recipe/layer_names.h"
#include "recipe/recipe.h"
#include "recipe/warnings.h"

namespace ng::python {
namespace {

/// What a recipe says in vain, or of noise that is rounded once more, of the linear layers of a
/// model of so many blocks.
std::vector<std::string> model_warnings(const Recipe& recipe, const std::vector<std::string>& names,
                                        int64_t depth) {
  std::vector<std::string> warnings = noise_warnings(recipe, names, depth);
  ModelLayers model{.names = names, .depth = depth};
  for (const auto table : {layers::kEmbed, layers::kPos}) model.names.emplace_back(table);
  for (const RecipeMatch& match : recipe.matches(model))
    if (match.key.starts_with("override") && !match.is_optional && match.layers.empty())
      warnings.push_back(match.key + ": means no layer of this model");
  return warnings;
}

}  // namespace

void add_recipes(nb::module_& module) {
  nb::class_<Recipe>(module, "Recipe")
      .def_prop_ro("name", &Recipe::name)
      .def_prop_ro("place", &Recipe::place)
      .def_prop_ro("resolved", &Recipe::resolved_toml)
      .def_prop_ro("hash", &Recipe::hash)
      .def_prop_ro("phases", [](const Recipe& recipe) { return recipe.phase_starts().size(); })
      .def("phase_at", &Recipe::phase_at, "progress"_a, "Of the share of training that is done.")
      .def_prop_ro("warnings", &Recipe::warnings)
      .def("model_warnings", model_warnings, "layers"_a, "depth"_a);
  module.def(
      "load_recipe", [](const std::string& words) { return Recipe::load(words); },
      "name_path_or_toml"_a);
  module.def("recipe_names", recipe_names);
  module.def("set_recipe_folder", set_recipe_folder, "folder"_a);
}

}  // namespace ng::python
