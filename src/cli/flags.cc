#include "cli/flags.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdlib>

#include "base/text.h"
#include "format/operand_table.h"
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

void add_backend(CLI::App& app, std::string& backend) {
  app.add_option("--backend", backend, "what computes: " + backends_text())->type_name("NAME");
}

std::vector<int> whole_numbers(std::span<const std::string_view> words) {
  std::vector<int> numbers;
  for (const std::string_view word : words) numbers.push_back(std::stoi(std::string(word)));
  return numbers;
}

}  // namespace

void add_threads(CLI::App& app, int64_t& threads) {
  app.add_option("--threads", threads, "threads; 0: one per core (the bits are the same)")
      ->type_name("N")
      ->check(CLI::Range(int64_t{0}, kMaxThreads));
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

void add_seed(CLI::App& app, uint64_t& seed, const std::string& of_what) {
  app.add_option("--seed", seed, of_what)
      ->type_name("N")
      ->capture_default_str()
      ->check([](const std::string& text) -> std::string {  // CLI11 wraps and clamps
        uint64_t value = 0;
        const char* end = text.data() + text.size();
        const auto [stop, error] = std::from_chars(text.data(), end, value);
        return error == std::errc() && stop == end
                   ? ""
                   : fmt::format("{}: a whole number from 0 to {}", text, ~uint64_t{0});
      });
}

std::string list_with_a_hole(const CLI::App& app, int argc, char** argv) {
  const auto has_hole = [](std::string_view list) {
    const std::vector<std::string> entries = split_at_commas(list);
    return std::any_of(entries.begin(), entries.end(), [](const auto& e) { return e.empty(); });
  };
  for (const CLI::Option* option : app.get_options()) {
    if (option->get_delimiter() != ',') continue;
    const std::string flag = option->get_name();
    for (int i = 1; i < argc; ++i) {
      const std::string_view word = argv[i];
      const bool joined = word.starts_with(flag + "=");
      if (!joined && (word != flag || i + 1 == argc)) continue;
      const std::string_view list = joined ? word.substr(flag.size() + 1) : argv[i + 1];
      if (has_hole(list)) return fmt::format("{}: \"{}\" has an empty entry", flag, list);
    }
  }
  return "";
}

void add_cast_flags(CLI::App& app, CastWords& words) {
  for (const OperandKey* key : cast_flags()) {
    CLI::Option* flag =
        app.add_option(flag_of(key->path), words.words[key->path], std::string(key->flag.help));
    const bool is_whole = key->kind == OperandKeyUse::Kind::integer;
    if (is_whole) flag->type_name("INT");
    if (!key->flag.names_values) continue;
    if (is_whole)
      flag->check(CLI::IsMember(whole_numbers(key->values)));
    else
      flag->check(CLI::IsMember(std::vector<std::string>(key->values.begin(), key->values.end())));
  }
}

void RunFlags::declare(CLI::App& app, bool with_recipe) {
  app.add_option("RUN", file, "run file (TOML)")->required();
  if (with_recipe)
    app.add_option("--recipe", recipe, "recipe instead of the run file's: a name or a file")
        ->type_name("NAME");
  app.add_option("--set", settings, "key=value over the run file's, e.g. train.steps=50")
      ->type_name("KEY=VALUE")
      ->expected(1)
      ->allow_extra_args(false)
      ->take_all();
  add_backend(app, backend);
  add_threads(app, threads);
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

void MachineFlags::declare(CLI::App& app) {
  add_backend(app, backend);
  declare_threads(app);
}

void MachineFlags::declare_threads(CLI::App& app) { add_threads(app, threads); }

Threads MachineFlags::use() const { return threads_of(threads); }

}  // namespace ng::cli
