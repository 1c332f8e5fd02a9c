// The registry of studies: a declaration and a row per study.
#include <fmt/format.h>

#include "base/error.h"
#include "base/nearest.h"
#include "recipe/said_recipe.h"
#include "study/study.h"

namespace ng::study {

extern const Study kCommunication;
extern const Study kGradients;
extern const Study kHadamard;
extern const Study kNoise;
extern const Study kRounding;
extern const Study kScales;
extern const Study kStability;
extern const Study kUpdate;

std::vector<std::string> RunSubject::changed_recipes() const {
  std::vector<std::string> changed;
  for (const std::string& recipe : recipes) changed.push_back(recipe_with(recipe, keys));
  return changed;
}

std::span<const Study> studies() {
  static const Study kStudies[] = {kScales, kHadamard,  kRounding,  kUpdate,
                                   kNoise,  kGradients, kStability, kCommunication};
  return kStudies;
}

const Study& study_of(std::string_view name) {
  std::vector<std::string_view> names;
  for (const Study& study : studies()) {
    if (study.name == name) return study;
    names.push_back(study.name);
  }
  throw Error(
      {.place = "study",
       .key = std::string(name),
       .problem = "unknown study",
       .remedy = fmt::format("{}known: {}", did_you_mean(name, names), fmt::join(names, ", "))});
}

}  // namespace ng::study
