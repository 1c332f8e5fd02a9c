#include "cli/models/recipe_routes.h"

#include "backend/cuda/route.h"
#include "base/json.h"
#include "cli/models/recipe_on_model.h"
#include "cli/output.h"
#include "nn/operand_role.h"
#include "report/recipe_text.h"
#include "speed/layer_speed.h"

namespace ng::cli {
namespace {

/// A GEMM of a layer: y (a.rows, b.rows) sums over k.
struct LayerGemm {
  const char* name;
  OperandSpec a, b;
  SumOrder sum;
};

std::vector<LayerGemm> gemms_of(const LayerKind& kind, int64_t tokens) {
  const auto gemm = [&](const char* name, OperandRole left, int64_t rows, int64_t cols, int64_t k) {
    const auto right = static_cast<OperandRole>(static_cast<int>(left) + 1);
    LayerGemm made{name, operand_form(kind.recipe, left), operand_form(kind.recipe, right),
                   gemm_of(kind.recipe, left).sum};
    made.a.rows = rows, made.b.rows = cols;
    made.a.k = made.b.k = k;
    return made;
  };
  return {gemm("fprop", OperandRole::fprop_input, tokens, kind.outputs, kind.inputs),
          gemm("dgrad", OperandRole::dgrad_grad, tokens, kind.inputs, kind.outputs),
          gemm("wgrad", OperandRole::wgrad_grad, kind.outputs, kind.inputs, tokens)};
}

Json gemm_json(const LayerGemm& gemm) {
  Json cards = Json::object();
  for (const cuda::Card& card : cuda::cards()) {
    const cuda::RouteChoice choice =
        cuda::choose_route(card, {.a = gemm.a, .b = gemm.b, .sum = gemm.sum});
    const bool has_units = choice.route != cuda::Route::kernel;
    cards[std::string(card.name)] = {{"route", cuda::name_of(choice.route)},
                                     {"left", has_units ? Json(text_of(choice.a)) : Json()},
                                     {"right", has_units ? Json(text_of(choice.b)) : Json()},
                                     {"why", choice.why}};
  }
  return {{"left", describe(gemm.a.cast)},
          {"right", describe(gemm.b.cast)},
          {"rows", gemm.a.rows},
          {"outputs", gemm.b.rows},
          {"k", gemm.a.k},
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
