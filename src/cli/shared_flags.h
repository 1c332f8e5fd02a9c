// Flags that several commands share.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/threads.h"
#include "cli/flags.h"
#include "recipe/cast_words.h"
#include "train/run_config.h"

namespace ng::cli {

/// A run file and what the command line puts over it.
struct RunFlags {
  std::string file;
  std::string recipe;
  std::vector<std::string> settings;
  std::string backend;
  int64_t threads = -1;  ///< -1: as the file says

  void declare(Flags flags, bool with_recipe = true);
  [[nodiscard]] RunConfig load() const;
  /// The flags and the file as the command line had them.
  [[nodiscard]] std::vector<std::string> words() const;
};

/// --recipe NAME, and --set recipe.KEY=VALUE over it, both into `recipe`, as Recipe::load() takes
/// it.
Flag add_recipe(Flags flags, std::string& recipe,
                const std::string& help = "recipe, a name or a file");
/// The latter alone, of what was declared before it.
void add_recipe_settings(Flags flags, std::string& recipe);

/// What starts a command of this program again, as a shell takes it.
[[nodiscard]] std::string shell_command(const std::vector<std::string>& words);

/// In the environment of what a supervisor starts.
inline constexpr const char* kSupervised = "NARROWGAUGE_SUPERVISED";

/// What train takes, and who starts it for several ranks.
struct TrainFlags {
  RunFlags run;
  std::string out;
  bool resume = false;
  bool verbose = false;

  void declare(Flags flags);
  /// --out; else the folder that a new run gets, or the newest where it is to be resumed.
  [[nodiscard]] std::string folder() const;
};

/// Checks that an argument is a finite number in [low, high], which the message says as given here.
[[nodiscard]] std::function<std::string(const std::string&)> number_between(
    const std::string& low, const std::string& high);

/// Checks that an argument is not empty, as that of a shell's unset variable is (--out "$UNSET").
[[nodiscard]] std::string not_empty(const std::string& text);

/// --seed N, from 0 to 2^64 - 1.
void add_seed(Flags flags, uint64_t& seed, const std::string& of_what);

/// --phase P of a recipe.
void add_phase(Flags flags, std::string& phase);

/// --base FOLDER, of commands that open adapters.
void add_base(Flags flags, std::string& base);

/// --threads N; 0: all cores.
void add_threads(Flags flags, int64_t& threads);
[[nodiscard]] Threads threads_of(int64_t threads);

/// The flags of a cast, all but --format.
void add_cast_flags(Flags flags, CastWords& words);

/// --backend and --threads of commands without a run file; where there is an emulated card, also
/// --thread-order.
struct MachineFlags {
  std::string backend = "cpu";
  int64_t threads = 0;        ///< 0: all cores
  uint64_t thread_order = 0;  ///< of an emulated card

  void declare(Flags flags);
  /// --threads alone, of what only the cpu backend does.
  void declare_threads(Flags flags);
  [[nodiscard]] Threads use() const;
  [[nodiscard]] std::unique_ptr<Backend> make() const;
  /// The same, of commands that work on the kernels of `cpu` where it is that: then null.
  [[nodiscard]] std::unique_ptr<Backend> other_than_cpu() const;
};

}  // namespace ng::cli
