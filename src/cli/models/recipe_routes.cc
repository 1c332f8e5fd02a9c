#include "cli/models/recipe_routes.h"

#include "backend/cuda/route.h"
#include "base/json.h"
#include "cli/models/recipe_on_model.h"
#include "cli/output.h"
#include "numbers/product.h"
#include "report/recipe_text.h"
#include "speed/layer_speed.h"

namespace ng::cli {
namespace {

/// A GEMM of a layer: y (rows, outputs) sums over k.
struct LayerGemm {
  const char* name;
  const GemmRecipe& numbers;
  int64_t rows, outputs, k;
};

std::vector<LayerGemm> gemms_of(const LayerKind& kind, int64_t tokens) {
  return {{"fprop", kind.recipe.fprop, tokens, kind.outputs, kind.inputs},
          {"dgrad", kind.recipe.dgrad, tokens, kind.inputs, kind.outputs},
          {"wgrad", kind.recipe.wgrad, kind.outputs, kind.inputs, tokens}};
}

cuda::RouteChoice route_on(const cuda::Card& card, const LayerGemm& gemm) {
  const GemmRecipe& numbers = gemm.numbers;
  OperandSpec a{.cast = numbers.left, .rows = gemm.rows, .k = gemm.k, .hadamard = {}};
  a.hadamard.size = numbers.hadamard;
  a.k_multiple = k_multiple(numbers.left, numbers.right, a.hadamard);
  OperandSpec b = a;
  b.cast = numbers.right;
  b.rows = gemm.outputs;
  return cuda::choose_route(card, {.a = a, .b = b, .sum = numbers.sum});
}

Json gemm_json(const LayerGemm& gemm) {
  Json cards = Json::object();
  for (const cuda::Card& card : cuda::cards()) {
    const cuda::RouteChoice choice = route_on(card, gemm);
    const bool has_units = choice.route != cuda::Route::kernel;
    cards[std::string(card.name)] = {{"route", cuda::name_of(choice.route)},
                                     {"left", has_units ? Json(text_of(choice.a)) : Json()},
                                     {"right", has_units ? Json(text_of(choice.b)) : Json()},
                                     {"why", choice.why}};
  }
  return {{"left", describe(gemm.numbers.left)},
          {"right", describe(gemm.numbers.right)},
          {"rows", gemm.rows},
          {"outputs", gemm.outputs},
          {"k", gemm.k},
          {"cards", cards}};
}

Json routes_of(const ModelConfig& config, const Recipe& recipe,
               const std::vector<MeasuredPhase>& measured_phases, int64_t tokens) {
  Json phases = Json::array();
  for (const MeasuredPhase& phase : measured_phases) {
    Json layers = Json::array();
    for (const LayerKind& kind : layer_kinds(config, recipe, phase.index)) {
      Json layer = {{"layers", kind.names}, {"outputs", kind.outputs}, {"inputs", kind.inputs}};
      for (const LayerGemm& gemm : gemms_of(kind, tokens)) layer[gemm.name] = gemm_json(gemm);
      layers.push_back(layer);
    }
    phases.push_back({{"phase", phase.index},
                      {"from", phase.from},
                      {"to", phase.to},
                      {"words", phase.text()},
                      {"layers", layers}});
  }
  return phases;
}

std::string routes_text(const Json& json) {
  std::string text =
      fmt::format("{} on {}, {} x {} tokens: routes by card, none of which is here\n",
                  json["recipe"].get<std::string>(), json["model"].get<std::string>(),
                  json["batch"].get<int64_t>(), json["seq"].get<int64_t>());
  std::vector<std::string> head = {"layers", "", "operands"};
  for (const cuda::Card& card : cuda::cards()) head.emplace_back(card.name);
  for (const Json& phase : json["phases"]) {
    const auto words = phase["words"].get<std::string>();
    text += words.empty() ? "\n" : fmt::format("\n{}\n", words);
    Table table(head);
    for (const Json& layer : phase["layers"])
      for (const std::string gemm : {"fprop", "dgrad", "wgrad"}) {
        const std::string left = layer[gemm]["left"], right = layer[gemm]["right"];
        std::vector<std::string> cells = {
            gemm == "fprop" ? report::layers_text(layer["layers"]) : "", gemm,
            left == right ? left : left + " x " + right};
        for (const cuda::Card& card : cuda::cards())
          cells.push_back(layer[gemm]["cards"][std::string(card.name)]["route"]);
        table.row(std::move(cells));
      }
    text += table.text();
  }
  return text +
         "kernel: plain arithmetic of a card's threads; folded: element times its block's scale in "
         "FP8,\na power of two for each row; --json says why a GEMM has no narrower route.\n";
}

}  // namespace

void print_recipe_routes(const std::string& named, const std::string& phase, StepFlags step,
                         bool json) {
  const Recipe recipe = Recipe::load(named);
  const ModelConfig config = step.config();
  const Json routes = {{"recipe", recipe.name()},
                       {"model", step.model},
                       {"batch", step.batch},
                       {"seq", step.length},
                       {"backend", "cuda"},
                       {"phases", routes_of(config, recipe, phases_of(recipe, phase, step.model),
                                            step.batch * step.length)}};
  print_either(json, routes, routes_text(routes));
}

}  // namespace ng::cli
