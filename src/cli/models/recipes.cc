// narrowgauge recipes [NAME [--model M]]: the recipes; one of them with all it inherits, or what it
// does to a model on this machine and to its memory. Below it recipes search.
#include "base/cuda_machine.h"
#include "base/files.h"
#include "base/json.h"
#include "base/text.h"
#include "base/toml.h"
#include "cli/command.h"
#include "cli/models/recipe_on_model.h"
#include "cli/models/recipe_routes.h"
#include "cli/runs/search.h"
#include "model/architecture.h"
#include "model/weights.h"
#include "recipe/explained.h"
#include "recipe/layer_names.h"
#include "recipe/notes.h"
#include "recipe/recipe.h"
#include "report/recipe_text.h"
#include "run/backends.h"

namespace ng::cli {
namespace {

struct RecipesArgs {
  std::string name, phase;
  StepFlags step;
  MachineFlags machine;
  bool explain = false;
  bool markdown = false;
  bool json = false;
};

RecipeNotes notes_of(const Recipe& recipe) {
  if (!is_file(recipe.place())) return {};
  return notes_in(read_file(recipe.place(), kMaxTomlBytes));
}

double bytes_of(WeightStorage::Master master) {
  constexpr double kBytes[] = {0, 4, 2};
  return kBytes[static_cast<size_t>(master)];
}

double bytes_of_carry(const WeightStorage& weights) {
  if (weights.master != WeightStorage::Master::none) return 0;
  if (weights.update == UpdateRule::kahan) return 2;
  return weights.update == UpdateRule::residual ? weights.residual_bits / 8.0 : 0;
}

double bytes_of(const OptimizerRecipe& optimizer) {
  const bool has_both = optimizer.kind == OptimizerRecipe::Kind::adamw;
  return (bits_per_value(optimizer.moment1) + (has_both ? bits_per_value(optimizer.moment2) : 0)) /
         8;
}

/// As it is kept from its last contribution to the update.
double bytes_of(const GradientRecipe& gradient) {
  if (!gradient.communicate.is_fp32()) return bits_per_value(gradient.communicate) / 8;
  return gradient.accumulate == Compute::bf16 ? 2 : 4;
}

/// What lives per parameter of a block's matrix from step to step, and the finished gradient; what
/// is kept for a whole tensor or block of rows (scales, Adam-mini's second moments) aside.
Json bytes_per_parameter(const RecipeSettings& s) {
  return {{"weights", bits_per_value(s.weights.storage) / 8 + bytes_of_carry(s.weights)},
          {"master", bytes_of(s.weights.master)},
          {"moments", bytes_of(s.optimizer)},
          {"gradients", bytes_of(s.gradient)}};
}

// Layers of the example by what they get in it.
std::vector<report::LayerGroup> groups_of(const Recipe& recipe, int phase) {
  const ModelConfig example = example_model();
  const int64_t depth = example.layers;
  report::LayerGroups groups;
  for (int64_t block = 0; block < depth; ++block)
    for (const std::string_view layer : linears_of_block(parts_of(example.architecture))) {
      const std::string name = layers::in_block(block, layer);
      groups.add(name, recipe.linear({.name = name, .block = block, .depth = depth}, phase));
    }
  const std::string head(layers::kHead);
  groups.add(head, recipe.linear({.name = head, .block = -1, .depth = depth}, phase));
  return groups.groups();
}

Json recipe_json(const Recipe& recipe) {
  const LinearRecipe& linear = recipe.settings(0).linear;
  const RecipeNotes notes = notes_of(recipe);
  return {{"name", recipe.name()},
          {"summary", notes.summary},
          {"source", notes.source},
          {"claim", notes.claim},
          {"deviates", notes.deviates},
          {"hash", recipe.hash()},
          {"place", recipe.place()},
          {"bytes_per_parameter", bytes_per_parameter(recipe.settings(0))},
          {"gemms",
           {{"fprop", report::gemm_json(linear.fprop, "cpu")},
            {"dgrad", report::gemm_json(linear.dgrad, "cpu")},
            {"wgrad", report::gemm_json(linear.wgrad, "cpu")}}},
          {"phases", recipe.phase_starts()},
          {"warnings", recipe.warnings()}};
}

// A recipe file: the facts are comments.
std::string text_of(const Recipe& recipe, bool explain) {
  const RecipeNotes notes = notes_of(recipe);
  std::string text =
      fmt::format("# {}\n", notes.summary.empty() ? on_one_line(recipe.name()) : notes.summary);
  for (const auto& [label, note] :
       {std::pair("Source", notes.source), {"Claim", notes.claim}, {"Deviates", notes.deviates}})
    if (!note.empty()) text += fmt::format("# {}: {}\n", label, note);
  text += fmt::format("# from {}, hash {}\n", on_one_line(recipe.place()), recipe.hash());
  text += "# bytes per parameter of a block's matrix:";
  const Json parts = bytes_per_parameter(recipe.settings(0));
  for (const auto& [what, count] : parts.items())
    if (count.get<double>() > 0) text += fmt::format(" {} {:.4g}", what, count.get<double>());
  text += '\n';
  for (size_t phase = 0; phase < recipe.phase_starts().size(); ++phase)
    text += fmt::format(
        "# GEMMs in a model of {} blocks, from {:g} % of training on:\n{}", example_model().layers,
        100 * recipe.phase_starts()[phase],
        commented(report::gemm_lines(groups_of(recipe, static_cast<int>(phase)), "cpu")));
  for (const std::string& warning : recipe.warnings())
    text += fmt::format("# warning: {}\n", warning);
  return text + "\n" + (explain ? explained_toml(recipe) : recipe.resolved_toml());
}

// Recipes that cannot be read are left out, with what is wrong with them on standard error.
std::vector<Recipe> all_recipes() {
  std::vector<Recipe> recipes;
  for (const std::string& name : recipe_names()) try {
      recipes.push_back(Recipe::load(name));
    } catch (const Error& error) {
      note(error.what());
    }
  return recipes;
}

// The table of docs/recipes.md.
std::string markdown_of(const std::vector<Recipe>& recipes) {
  Table table({"recipe", "bytes", "what it is", "claimed", "published"});
  for (const Recipe& recipe : recipes) {
    const RecipeNotes notes = notes_of(recipe);
    double bytes = 0;
    for (const Json& part : bytes_per_parameter(recipe.settings(0))) bytes += part.get<double>();
    table.row(
        {recipe.name(), fmt::format("{:.4g}", bytes), notes.summary, notes.claim, notes.source});
  }
  return table.markdown();
}

void list(bool json) {
  constexpr Column kColumns[] = {{"recipe", "name"}, {"hash", "hash"}, {"what it is", "summary"}};
  Json all = Json::array();
  for (const Recipe& recipe : all_recipes()) all.push_back(recipe_json(recipe));
  print_either(json, all, table_of(all, kColumns, 3));
}

void recipes(const RecipesArgs& args) {
  if (args.name.empty() && !args.step.model.empty())
    throw Error({.place = "recipes",
                 .key = "--model",
                 .problem = "of which recipe?",
                 .remedy = "narrowgauge recipes NAME --model " + args.step.model});
  if (args.markdown) return print("{}", markdown_of(all_recipes()));
  if (args.name.empty()) return list(args.json);
  const bool is_of_no_card = args.machine.backend == "cuda" && args.machine.thread_order == 0 &&
                             cuda_machine().devices.empty();
  if (!args.step.model.empty() && is_of_no_card)
    return print_recipe_routes(args.name, args.phase, args.step, args.json);
  if (!args.step.model.empty())
    return print_recipe_on_model(args.name, args.phase, args.step, args.machine, args.json);
  const Recipe recipe = Recipe::load(args.name);
  require_known_patterns(recipe);
  Json json = recipe_json(recipe);
  json["resolved"] = recipe.resolved_toml();
  print_either(args.json, json, text_of(recipe, args.explain));
}

/// Flags before a command below, and those that it does not know of, are this command's: nobody
/// would read them.
void refuse_beside_search(Flags flags) {
  if (!flags.has_named_below()) return;
  std::vector<const char*> all = {"NAME",  "--model",   "--base",     "--batch",
                                  "--seq", "--phase",   "--backend",  "--threads",
                                  "--set", "--explain", "--markdown", "--json"};
  if (any_has_thread_order()) all.push_back("--thread-order");
  for (const char* flag : all)
    if (flags.is_given(flag))
      throw WrongFlags(fmt::format("{}: not before {}, or it has none", flag, kSearch.name));
}

void declare_recipes(Flags flags, RecipesArgs& args) {
  flags.option("NAME", args.name, "one recipe, a name or a file: all keys, and how it runs");
  add_recipe_settings(flags, args.name);
  args.step.declare(flags,
                    "how each GEMM of this model runs here and how fast, measured now, and what "
                    "training it takes of memory; by which routes cards would run it with "
                    "--backend cuda where there is none; ");
  add_phase(flags, args.phase);
  args.machine.declare(flags);
  flags.flag("--explain", args.explain, "behind each line of NAME what its key means");
  const Flag markdown =
      flags.flag("--markdown", args.markdown, "the list as docs/recipes.md has it");
  flags.flag("--json", args.json, "print JSON").excludes(markdown);
  flags.check([&args, flags] {
    refuse_beside_search(flags);
    if (args.markdown && !args.name.empty())
      throw WrongFlags("--markdown prints the list: without NAME");
    if (args.explain && (args.json || args.name.empty() || !args.step.model.empty()))
      throw WrongFlags("--explain goes with NAME, without --model or --json");
    for (const char* flag : {"--base", "--phase", "--backend", "--threads"})
      if (args.step.model.empty() && flags.is_given(flag))
        throw WrongFlags(fmt::format("{}: goes with --model", flag));
  });
  flags.footer(
      "Recipes are TOML files in recipes/; $NARROWGAUGE_RECIPES names more folders. narrowgauge "
      "keys lists what a recipe may say.");
}

}  // namespace

const Command kRecipes{
    "recipes", "the recipes; one with all it inherits and how it runs; search for another",
    [](Flags flags) -> std::function<int()> {
      const Flags below =
          flags.optional_subcommand(std::string(kSearch.name), std::string(kSearch.summary));
      const std::function<int()> show = with_flags<RecipesArgs, declare_recipes, recipes>(flags);
      const std::function<int()> search = kSearch.declare(below);
      return [=] { return below.is_named() ? search() : show(); };
    }};

}  // namespace ng::cli
