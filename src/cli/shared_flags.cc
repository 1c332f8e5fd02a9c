#include "cli/shared_flags.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdlib>

#include "base/text.h"
#include "recipe/recipe.h"
#include "run/backends.h"

namespace ng::cli {
namespace {

constexpr int64_t kMaxThreads = 4096;

std::string backends_text() {
  std::string names;
  for (const std::string_view name : backend_names())
    names.append(names.empty() ? "" : " or ").append(name);
  return names;
}

void add_backend(Flags flags, std::string& backend) {
  flags.option("--backend", backend, "what computes: " + backends_text()).type_name("NAME");
}

}  // namespace

void add_threads(Flags flags, int64_t& threads) {
  flags.option("--threads", threads, "threads; 0: one per core (the bits are the same)")
      .type_name("N")
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
  flags.option("--seed", seed, of_what)
      .type_name("N")
      .shows_default()
      .check([](const std::string& text) -> std::string {  // CLI11 wraps and clamps
        uint64_t value = 0;
        const char* end = text.data() + text.size();
        const auto [stop, error] = std::from_chars(text.data(), end, value);
        return error == std::errc() && stop == end
                   ? ""
                   : fmt::format("{}: a whole number from 0 to {}", text, ~uint64_t{0});
      });
}

void add_cast_flags(Flags flags, CastWords& words) {
  flags.option("--rounding", words.rounding, "nearest or stochastic")
      .one_of({"nearest", "stochastic"});
  flags
      .option("--overflow", words.overflow,
              "saturate, or special: infinities and NaN (special only for bf16, else saturate)")
      .one_of({"saturate", "special"});
  flags.option("--scale-rule", words.scale_rule,
               "E8M0: floor, rceil, ceil, even, mse; NVFP4: nearest, up");
  flags.option("--block", words.block, "values that share a scale: RxC, tensor or row");
  flags.option("--scale", words.scale, "none, fp32, pow2, e8m0 or e4m3");
  flags.option("--tensor-scale", words.tensor_scale, "second level: none, fp32 or pow2");
  flags.option("--sr-bits", words.sr_bits, "random bits per value").one_of({8, 16, 32});
}

void RunFlags::declare(Flags flags, bool with_recipe) {
  flags.option("RUN", file, "run file (TOML)").required();
  if (with_recipe)
    flags.option("--recipe", recipe, "recipe instead of the run file's: a name or a file")
        .type_name("NAME");
  flags.option("--set", settings, "key=value over the run file's, e.g. train.steps=50")
      .type_name("KEY=VALUE")
      .repeats();
  add_backend(flags, backend);
  add_threads(flags, threads);
}

RunConfig RunFlags::load() const {
  RunConfig config = RunConfig::load(file, settings);
  if (!recipe.empty()) {
    (void)Recipe::load(recipe);  // what is wrong is this flag's, not the run file's
    config.set_recipe(recipe);
    config.given["recipe"] = {.place = "--recipe"};
  }
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

void MachineFlags::declare(Flags flags) {
  add_backend(flags, backend);
  declare_threads(flags);
}

void MachineFlags::declare_threads(Flags flags) { add_threads(flags, threads); }

Threads MachineFlags::use() const { return threads_of(threads); }

}  // namespace ng::cli
