// Studies: each reproduces a figure or a table of the specification or of a paper.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/threads.h"
#include "study/report.h"

namespace ng::study {

/// What a study of training looks at.
struct RunSubject {
  std::string folder = {};                ///< of the run: run.toml, checkpoints/
  std::vector<int64_t> steps = {};        ///< of its checkpoints, or of each run; empty: all
  std::vector<std::string> recipes = {};  ///< names or files
  std::vector<std::string> keys = {};     ///< over each of them: "recipe.KEY=VALUE"
  int64_t draws = 0;                      ///< of each recipe: gradients, or seeds
  std::string phase = {};                 ///< of the recipes, as --phase says; empty: of the step

  /// Each with the keys over it, as Recipe::load() takes it. Throws Error for what is no recipe.
  [[nodiscard]] std::vector<std::string> changed_recipes() const;
};

/// A tensor of a user's file that a study looks at instead of random numbers.
struct TensorSubject {
  std::string file = {};       ///< .safetensors; empty: none
  std::string name = {};       ///< of the tensor
  std::string direction = {};  ///< another of the same shape; empty: random
};

struct Settings {
  uint64_t seed = 1;
  double share = 1;  ///< of the values and draws that the figures are quoted for
  Threads threads = {};
  std::function<void(int64_t done, int64_t total)> progress = {};  ///< empty: nobody looks
  RunSubject run = {};                                             ///< for studies of a run
  TensorSubject tensor = {};  ///< for those that can look at one

  /// `share` of all values or draws, but so many at least.
  [[nodiscard]] int64_t part_of(int64_t all, int64_t least) const {
    return std::max(least, static_cast<int64_t>(share * static_cast<double>(all)));
  }
};

struct Study {
  std::string_view name;
  std::string_view summary;  ///< one line
  Report (*run)(const Settings& settings);
  bool of_run = false;                ///< looks at Settings::run
  bool of_tensor = false;             ///< looks at Settings::tensor where there is one
  std::string_view recipes = {};      ///< of_run: "A,B,C", where the user names none
  int64_t draws = 0;                  ///< of_run: where the user says no number
  std::string_view counts = "steps";  ///< what Settings::progress counts
};

/// All studies, in the order in which they are listed.
[[nodiscard]] std::span<const Study> studies();

/// Throws Error naming the nearest known one.
[[nodiscard]] const Study& study_of(std::string_view name);

/// Counts the steps of a study for whoever watches.
class Progress {
 public:
  Progress(const Settings& settings, int64_t total) : settings_(settings), total_(total) {}
  void step() {
    if (settings_.progress) settings_.progress(++done_, total_);
  }

 private:
  const Settings& settings_;
  int64_t total_;
  int64_t done_ = 0;
};

}  // namespace ng::study
