#include "report/recipe_text.h"

#include <algorithm>

#include "backend/cpu/gemm/job.h"
#include "backend/cuda/route.h"
#include "base/cuda_machine.h"
#include "base/json.h"
#include "base/keys.h"
#include "model/weights.h"
#include "numbers/product.h"
#include "recipe/matches.h"

namespace ng::report {
namespace {

std::string gemm_text(const GemmRecipe& gemm, std::string_view backend) {
  std::string text = gemm.left == gemm.right ? describe(gemm.left)
                                             : describe(gemm.left) + " x " + describe(gemm.right);
  if (gemm.hadamard != 0) text += fmt::format(", Hadamard {}", gemm.hadamard);
  if (gemm.sum != SumOrder::chain) text += fmt::format(", sums as {}", name_of(gemm.sum));
  if (gemm.center != Center::none)
    text += gemm.center == Center::wide ? ", means wide" : ", means by themselves";
  if (gemm.narrows_output()) text += ", output " + describe(gemm.narrow_output);
  return fmt::format("{}: {}", text, how_it_runs(gemm, backend));
}

/// Of the card that `backend` has.
cuda::Route route_of(const OperandSpec& a, const OperandSpec& b, SumOrder sum,
                     std::string_view backend) {
  const auto sm_here = [] {
    static const std::vector<CudaDevice> cards = cuda_machine().devices;  // loads the driver
    return cards.empty() ? cuda::kEmulatedSm : cards.front().sm;
  };
  const int emulated = backend.ends_with("-100") ? 100 : cuda::kEmulatedSm;
  const cuda::Card& card = cuda::card_like(backend == "cuda" ? sm_here() : emulated);
  return cuda::choose_route(card, {.a = a, .b = b, .sum = sum}).route;
}

std::string_view text_of(cuda::Route route) {
  switch (route) {
    case cuda::Route::nvfp4:
      return "NVFP4 units";
    case cuda::Route::mxfp8:
      return "MXFP8 units";
    case cuda::Route::fp8:
      return "FP8 units";
    case cuda::Route::folded:
      return "folded into FP8 units";
    case cuda::Route::int8:
      return "INT8 units";
    case cuda::Route::bf16:
      return "BF16 units";
    case cuda::Route::kernel:
      break;
  }
  return "plain arithmetic of a card's threads";
}

}  // namespace

std::string how_it_runs(const GemmRecipe& gemm, std::string_view backend) {
  const Operand &left = gemm.left, &right = gemm.right;
  if (backend == "ref") return "reference loops";
  OperandSpec a{.cast = left, .rows = 16, .k = 128, .hadamard = {}};
  a.k_multiple = k_multiple(left, right, {});
  OperandSpec b = a;
  b.cast = right;
  if (backend == "cuda" || backend.starts_with("cuda-emulated-units"))
    return std::string(text_of(route_of(a, b, gemm.sum, backend)));
  if (backend != "cpu") return std::string(text_of(cuda::Route::kernel));
  if (left.is_fp32() && right.is_fp32()) return "native";
  switch (cpu::units_of(a, b, gemm.sum)) {
    case cpu::Units::int8:
    case cpu::Units::int16:
      return "exact on integer dot products";
    case cpu::Units::bf16:
      return "exact on BF16 dot products";
    case cpu::Units::fp32:
      break;
  }
  return "exact on FP32 units";
}

Json gemm_json(const GemmRecipe& gemm, std::string_view backend) {
  return {{"left", describe(gemm.left)},
          {"right", describe(gemm.right)},
          {"hadamard", gemm.hadamard},
          {"sum", name_of(gemm.sum)},
          {"runs", how_it_runs(gemm, backend)}};
}

std::string gemm_lines(const std::vector<LayerGroup>& groups, std::string_view backend) {
  std::string text;
  for (const LayerGroup& group : groups) {
    const LinearRecipe& r = group.recipe;
    const std::string fprop = gemm_text(r.fprop, backend);
    const std::string dgrad = gemm_text(r.dgrad, backend);
    const std::string wgrad = gemm_text(r.wgrad, backend);
    text += fmt::format("  {}\n", group.layers);
    if (fprop == dgrad && dgrad == wgrad)
      text += fmt::format("    all    {}\n", fprop);
    else
      text += fmt::format("    fprop  {}\n    dgrad  {}\n    wgrad  {}\n", fprop, dgrad, wgrad);
  }
  return text;
}

void LayerGroups::add(const std::string& name, const LinearRecipe& recipe) {
  const auto same = std::find_if(members_.begin(), members_.end(),
                                 [&](const Members& m) { return m.recipe == recipe; });
  if (same == members_.end())
    members_.push_back({recipe, {name}});
  else
    same->names.push_back(name);
}

namespace {

/// What a table of a recipe says of where it holds.
std::string where_text(const RecipeMatch& match) {
  if (match.is_phase()) return fmt::format("from {:g} % of training on", 100 * match.start);
  std::string text = "layers = " + print_value(match.patterns);
  if (match.blocks.empty()) return text;
  const std::string blocks = "blocks = " + toml_quote(match.blocks);
  return match.patterns == std::vector<std::string>{"*"} ? blocks : text + ", " + blocks;
}

}  // namespace

Json numbers_json(const Recipe& recipe, const MeasuredPhase& phase, const ModelConfig& config) {
  return {{"recipe", recipe.name()},
          {"phase", phase.index},
          {"phases", recipe.phase_starts()},
          {"matches", matches_json(recipe.matches(layers_of(config)))}};
}

std::string match_text(const RecipeMatch& match) {
  return fmt::format("{} ({}) {}: {}", match.key, where_text(match),
                     match.is_phase() ? "changes" : "means",
                     match.layers.empty() ? "no layer" : layers_text(match.layers));
}

std::string matches_text(const std::vector<RecipeMatch>& matches) {
  std::string text;
  for (const RecipeMatch& match : matches) text += "  " + match_text(match) + "\n";
  return text;
}

std::string layers_text(const std::vector<std::string>& names) {
  if (names.size() > 2)
    return fmt::format("{} layers, {} ... {}", names.size(), names.front(), names.back());
  return names.size() == 2 ? names.front() + ", " + names.back() : names.front();
}

std::vector<LayerGroup> LayerGroups::groups() const {
  std::vector<LayerGroup> groups;
  for (const Members& m : members_) groups.push_back({layers_text(m.names), m.recipe});
  return groups;
}

}  // namespace ng::report
