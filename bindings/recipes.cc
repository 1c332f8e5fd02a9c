// Recipes by name, file or text.
#include <nanobind/stl/vector.h>

#include "bind.h"
#include "recipe/recipe.h"

namespace ng::python {

void add_recipes(nb::module_& module) {
  nb::class_<Recipe>(module, "Recipe")
      .def_prop_ro("name", &Recipe::name)
      .def_prop_ro("place", &Recipe::place)
      .def_prop_ro("resolved", &Recipe::resolved_toml)
      .def_prop_ro("hash", &Recipe::hash)
      .def_prop_ro("phases", [](const Recipe& recipe) { return recipe.phase_starts().size(); })
      .def("phase_at", &Recipe::phase_at, "progress"_a, "Of the share of training that is done.")
      .def_prop_ro("warnings", &Recipe::warnings);
  module.def(
      "load_recipe", [](const std::string& words) { return Recipe::load(words); },
      "name_path_or_toml"_a);
  module.def("recipe_names", recipe_names);
  module.def("set_recipe_folder", set_recipe_folder, "folder"_a);
}

}  // namespace ng::python
