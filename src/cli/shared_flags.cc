#include "cli/shared_flags.h"

#include <fmt/format.h>

#include <charconv>
#include <cmath>
#include <cstdlib>

#include "base/text.h"
#include "format/operand_table.h"
#include "recipe/recipe.h"
#include "recipe/said_recipe.h"
#include "run/backends.h"
#include "train/run_folder.h"

namespace ng::cli {
namespace {

constexpr int64_t kMaxThreads = 4096;

void add_backend(Flags flags, std::string& backend) {
  flags.option("--backend NAME", backend,
               fmt::format("what computes: {}", fmt::join(backend_names(), " or ")));
}

std::vector<int> whole_numbers(std::span<const std::string_view> words) {
  std::vector<int> numbers;
  for (const std::string_view word : words) numbers.push_back(std::stoi(std::string(word)));
  return numbers;
}

/// Of seeds, which CLI11 would wrap and clamp.
std::string what_is_no_seed(const std::string& text) {
  uint64_t value = 0;
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, value);
  return error == std::errc() && stop == end
             ? ""
             : fmt::format("{}: a whole number from 0 to {}", text, ~uint64_t{0});
}

}  // namespace

void add_base(Flags flags, std::string& base) {
  flags
      .option("--base FOLDER", base,
              "of adapters: the model beside which they stand, else as their configuration says")
      .check(not_empty);
}

void add_phase(Flags flags, std::string& phase) {
  flags
      .option("--phase P", phase,
              "of a recipe whose numbers change during training: first, last, a number from 0 on, "
              "or step:S, that of step S + 1, taken next when S are done (step:S/N: of N)")
      .check(not_empty);
}

void add_threads(Flags flags, int64_t& threads) {
  flags.option("--threads N", threads, "threads; 0: one per core (the bits are the same)")
      .range(0, kMaxThreads);
}

Threads threads_of(int64_t threads) {
  return {threads > 0 ? static_cast<int>(threads) : available_cores()};
}

std::function<std::string(const std::string&)> number_between(const std::string& low,
                                                              const std::string& high) {
  return [=](const std::string& text) -> std::string {
    char* end = nullptr;
    const double value = std::strtod(text.c_str(), &end);
    const bool is_number = !text.empty() && *end == 0 && std::isfinite(value);
    if (is_number && value >= std::stod(low) && value <= std::stod(high)) return "";
    return fmt::format("{}: a number from {} to {}", text, low, high);
  };
}

std::string not_empty(const std::string& text) {
  return text.empty() ? "an empty argument: name something, or leave it out" : "";
}

void add_seed(Flags flags, uint64_t& seed, const std::string& of_what) {
  flags.setting("--seed N", seed, of_what).check(what_is_no_seed);
}

void add_cast_flags(Flags flags, CastWords& words) {
  for (const OperandKey* key : cast_flags()) {
    const bool is_whole = key->kind == OperandKeyUse::Kind::integer;
    const Flag flag = flags.option(flag_of(key->path) + (is_whole ? " INT" : ""),
                                   words.words[key->path], std::string(key->flag.help));
    if (!key->flag.names_values) continue;
    if (is_whole)
      flag.one_of(whole_numbers(key->values));
    else
      flag.one_of(std::vector<std::string>(key->values.begin(), key->values.end()));
  }
}

void add_recipe_settings(Flags flags, std::string& recipe) {
  flags
      .read_options("--set recipe.KEY=VALUE",
                    "a key over the recipe's, e.g. recipe.linear.wgrad.hadamard=16",
                    [&recipe](const std::vector<std::string>& settings) {
                      recipe = recipe_with(recipe, settings);
                    })
      .repeats();
}

Flag add_recipe(Flags flags, std::string& recipe, const std::string& help) {
  const Flag flag = flags.option("--recipe NAME", recipe, help);
  if (!recipe.empty()) (void)flag.shows_default();
  add_recipe_settings(flags, recipe);
  return flag;
}

void RunFlags::declare(Flags flags, bool with_recipe) {
  flags.option("RUN", file, "run file (TOML)").required();
  if (with_recipe)
    flags.option("--recipe NAME", recipe, "recipe instead of the run file's: a name or a file");
  flags
      .option("--set KEY=VALUE", settings,
              "key=value over the run file's, e.g. train.steps=50, recipe.linear.wgrad.hadamard=16")
      .repeats();
  add_backend(flags, backend);
  add_threads(flags, threads);
}

RunConfig RunFlags::load() const {
  if (!recipe.empty()) (void)Recipe::load(recipe);  // what is wrong is this flag's
  RunConfig config = RunConfig::load(file, settings, recipe);
  if (!recipe.empty()) config.given["recipe"] = {.place = "--recipe"};
  if (!backend.empty()) {
    config.train.backend = backend;
    config.given["train.backend"] = {.place = "--backend"};
  }
  if (threads >= 0) config.train.threads = threads;
  return config;
}

std::vector<std::string> RunFlags::words() const {
  std::vector<std::string> words = {file};
  const auto add = [&](const char* flag, const std::string& value) {
    if (!value.empty()) words.insert(words.end(), {flag, value});
  };
  add("--recipe", recipe);
  for (const std::string& setting : settings) add("--set", setting);
  add("--backend", backend);
  if (threads >= 0) add("--threads", std::to_string(threads));
  return words;
}

std::string shell_command(const std::vector<std::string>& words) {
  const char* program = std::getenv("NARROWGAUGE_COMMAND");
  std::string command = shell_quoted(program != nullptr ? program : "narrowgauge");
  for (const std::string& word : words) command += ' ' + shell_quoted(word);
  return command;
}

void TrainFlags::declare(Flags flags) {
  run.declare(flags);
  flags.option("--out DIR", out, "folder of the run; else runs/NAME, runs/NAME-2, ...");
  flags.flag("--resume", resume,
             "go on from the newest whole checkpoint in --out, or in the newest runs/NAME");
  flags.flag("--verbose", verbose,
             "before step 1 also a table of memory, and each group of layers of the recipe");
}

std::string TrainFlags::folder() const {
  if (!out.empty()) return out;
  return resume ? newest_run_folder(run.file) : new_run_folder(run.file);
}

void MachineFlags::declare(Flags flags) {
  add_backend(flags, backend);
  declare_threads(flags);
  if (any_has_thread_order())
    flags
        .option("--thread-order SEED", thread_order,
                "order in which the threads of an emulated card go on (the bits are the same)")
        .check(what_is_no_seed);
}

void MachineFlags::declare_threads(Flags flags) { add_threads(flags, threads); }

Threads MachineFlags::use() const { return threads_of(threads); }

std::unique_ptr<Backend> MachineFlags::make() const {
  return make_backend(backend, use(), thread_order);
}

std::unique_ptr<Backend> MachineFlags::other_than_cpu() const {
  return backend == "cpu" && thread_order == 0 ? nullptr : make();
}

}  // namespace ng::cli
