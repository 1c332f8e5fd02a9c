#include "recipe/settings_keys.h"

#include <algorithm>

#include "recipe/noise_keys.h"
#include "recipe/operand_keys.h"
#include "recipe/operand_rules.h"
#include "recipe/output_keys.h"
#include "recipe/update_keys.h"
#include "recipe/update_words.h"

namespace ng {
namespace {

using Settings = RecipeSettings;
using SettingsKey = Key<RecipeSettings>;

/// A key, and where its operand lies if its value is one; null where it is another word.
struct Row : SettingsKey {
  Row(SettingsKey key)  // NOLINT(google-explicit-constructor): every key is a row
      : SettingsKey(std::move(key)) {}
  std::function<const Operand*(const Settings&)> operand;

  [[nodiscard]] const Operand* operand_in(const Settings& s) const {
    return operand ? operand(s) : nullptr;
  }
};
using Rows = std::vector<Row>;

template <class Enum, class Get>
SettingsKey settings_choice(std::string path, Get get, Choices<Enum> choices, std::string doc) {
  return choice_key<Settings>(std::move(path), get, std::move(choices), std::move(doc));
}

template <class Get>
Row operand(std::string path, Get get, std::string doc) {
  Row row = operand_key<Settings>(std::move(path), get, std::move(doc));
  row.operand = [=](const Settings& s) { return &get(s); };
  return row;
}

/// linear = "<format>": all six operands, nothing transformed, taken off or narrow behind.
SettingsKey linear_key() {
  return {
      {.path = "linear",
       .expected = "a format name, or a table of fprop, dgrad and wgrad",
       .doc = "sets all six operands, hadamard = 0 and center = \"none\", and an output that is an "
              "operand to \"compute\"",
       .example = "\"mxfp4\""},
      [](Settings& s, const TomlItem& item) {
        Operand all;
        read_operand(all, item);
        for (GemmRecipe* gemm : {&s.linear.fprop, &s.linear.dgrad, &s.linear.wgrad}) {
          gemm->left = gemm->right = all;
          gemm->hadamard = 0;
          gemm->center = Center::none;
        }
        for (OutputNumbers* output : {&s.fprop_output, &s.dgrad_output})
          if (output->kind == OutputKind::narrow) *output = {};
      },
      [](const Settings&) { return std::string(); }};
}

template <class Get>
SettingsKey hadamard_key(const std::string& gemm, Get get) {
  const std::string expected = "0, 16, 32, 64 or 128";
  return {
      {.path = gemm + ".hadamard",
       .expected = expected,
       .doc = "size of the random Hadamard transform of both operands, 0: none",
       .type = "integer",
       .equation = "(L · H) · (R · H)ᵀ = L · Rᵀ, H = signs · Hadamard matrix / √size, along what "
                   "is summed over",
       .example = "16"},
      [=](Settings& s, const TomlItem& item) {
        const int64_t size =
            item.value->is_integer() ? item.value->as_integer()->get() : int64_t{-1};
        if (size != 0 && size != 16 && size != 32 && size != 64 && size != 128)
          item.refuse_value(expected);
        get(s).hadamard = int(size);
      },
      [=](const Settings& s) { return print_value(int64_t{get(s).hadamard}); }};
}

/// A GEMM and its operands, as documentation calls them.
struct GemmWords {
  std::string path;          ///< linear.fprop
  std::string equation;      ///< Y = X · Wᵀ
  const char *left, *right;  ///< keys: input, weight
  std::string left_meaning, right_meaning;
  Choices<Center> centers = {{{"none", Center::none}, {"wide", Center::wide}}};
};

/// Of fprop and dgrad.
const Choices<Center> kCenters = {
    {{"none", Center::none}, {"wide", Center::wide}, {"operand", Center::operand}}};

/// The rows of one GEMM but its output. `get` leads to its GemmRecipe.
template <class Get>
void add_gemm(Rows& keys, const GemmWords& words, Get get) {
  const std::string& gemm = words.path;
  const auto add = [&](const char* name, const std::string& meaning, auto of) {
    keys.push_back(operand(gemm + "." + name, of, "numbers of " + meaning));
    keys.back().equation = words.equation;
  };
  add(
      words.left, words.left_meaning, [=](auto& s) -> auto& { return get(s).left; });
  add(
      words.right, words.right_meaning, [=](auto& s) -> auto& { return get(s).right; });
  keys.push_back(hadamard_key(gemm, get));
  keys.push_back(settings_choice(
      gemm + ".hadamard_signs", [=](auto& s) -> auto& { return get(s).hadamard_signs; },
      Choices<HadamardSigns>{{{"random", HadamardSigns::random},
                              {"fixed", HadamardSigns::fixed},
                              {"none", HadamardSigns::none},
                              {"layer", HadamardSigns::layer}}},
      "signs before the transform: new ones for each layer and step, one fixed vector, all plus, "
      "or "
      "random ones of each layer that stay"));
  keys.push_back(settings_choice(
      gemm + ".sum", [=](auto& s) -> auto& { return get(s).sum; },
      Choices<SumOrder>{{{"chain", SumOrder::chain}, {"tile32", SumOrder::tile32}}},
      "order of its sums; tile32: of the matrix tiles of BF16 that newer CPUs have (AMX), for "
      "operands that BF16 holds exactly, the head's by an override"));
  keys.back().equation =
      "chain: s = fma(l, r, s) along K; tile32: s + (Σ over even k + Σ over odd k) of 32 at a time";
  keys.back().beside = fmt::format("{} = \"bf16\", {} = \"bf16\"", words.left, words.right);
  keys.push_back(settings_choice(
      gemm + ".center", [=](auto& s) -> auto& { return get(s).center; }, words.centers,
      "whether means over tokens are taken off before operands are narrowed, and their product "
      "added again: in BF16 (wide; in wgrad FP32), or narrowed by themselves (operand)"));
  keys.back().equation =
      "L = 1 · μᵀ + R: L · Wᵀ becomes Q(R) · Q(W)ᵀ + 1 · (μᵀ · Q(W)ᵀ); in wgrad of both operands";
}

template <class Get>
Row output_key(std::string path, Get get, std::string equation) {
  Row row = SettingsKey{
      {.path = std::move(path),
       .expected = "\"compute\", \"bf16\", \"fp32\", a format name or a table of operand keys",
       .doc =
           "what the result is rounded to; compute: as the key of that name says; an operand: to "
           "its values first, before anything reads them, then as compute says",
       .takes_table = true,
       .type = kOperandType,
       .equation = std::move(equation),
       .example = "{format = \"int8\", block = [32, 32]}"},
      [=](Settings& s, const TomlItem& item) { read_output(get(s), item); },
      [=](const Settings& s) { return print_output(get(s)); }};
  row.operand = [=](const Settings& s) {
    const OutputNumbers& output = get(s);
    return output.kind == OutputKind::narrow ? &output.narrow : nullptr;
  };
  return row;
}

void add_linear(Rows& keys) {
  keys.push_back(settings_choice(
      "compute", [](auto& s) -> auto& { return s.compute; }, kComputes,
      "what activations, their gradients, and the head's operands and logits are stored as; "
      "arithmetic between them and losses are FP32 with either"));
  keys.push_back(linear_key());
  add_gemm(
      keys,
      {"linear.fprop", "Y = X · Wᵀ", "input", "weight", "the input X, in the forward GEMM",
       "the weight W, in the forward GEMM", kCenters},
      [](auto& s) -> auto& { return s.linear.fprop; });
  keys.push_back(output_key(
      "linear.fprop.output", [](auto& s) -> auto& { return s.fprop_output; }, "Y = Q(X · Wᵀ + b)"));
  add_gemm(
      keys,
      {"linear.dgrad", "dX = dY · W", "grad", "weight",
       "the output's gradient dY, in the GEMM of the input's gradient",
       "the weight W, in the GEMM of the input's gradient", kCenters},
      [](auto& s) -> auto& { return s.linear.dgrad; });
  keys.push_back(output_key(
      "linear.dgrad.output", [](auto& s) -> auto& { return s.dgrad_output; }, "dX = Q(dY · W)"));
  add_gemm(
      keys,
      {"linear.wgrad", "dW = dYᵀ · X", "grad", "input",
       "the output's gradient dY, in the GEMM of the weight's gradient",
       "the input X, in the GEMM of the weight's gradient"},
      [](auto& s) -> auto& { return s.linear.wgrad; });
}

void add_weights(Rows& keys) {
  using Master = WeightStorage::Master;
  keys.push_back(operand(
      "weights.storage", [](auto& s) -> auto& { return s.weights.storage; },
      "what weights persist in and GEMMs read"));
  keys.push_back(settings_choice(
      "weights.master", [](auto& s) -> auto& { return s.weights.master; },
      Choices<Master>{{{"none", Master::none}, {"fp32", Master::fp32}, {"fp16", Master::fp16}}},
      "a wider copy that updates go into"));
  keys.back().beside = "storage = \"fp8_e4m3\"";
  keys.push_back(weights_update_key());
  keys.push_back(number_key<Settings>(
      "weights.rtol", [](auto& s) -> auto& { return s.weights.rtol; }, {0, 1, true, true},
      "precision_aware: relative tolerance"));
  keys.back().equation = "| |w' - w| - lr · |u| | <= rtol · lr · |u|";
  keys.push_back(integer_key<Settings>(
      "weights.max_iters", [](auto& s) -> auto& { return s.weights.max_iters; }, {1, 1000},
      "precision_aware: most bisections"));
  keys.push_back(settings_choice(
      "weights.search", [](auto& s) -> auto& { return s.weights.search; },
      Choices<StepSearch>{{{"norms", StepSearch::norms}, {"printed", StepSearch::printed}}},
      "precision_aware: how α is found; printed: as the notes print it"));
  keys.back().equation =
      "norms: double α from lr on, then bisect, until |w' - w| = lr · |u|; printed: bisect [0, 1] "
      "until |w' - w|² = lr · |u|², the last try counts";
  keys.push_back(residual_bits_key());
}

void add_optimizer(Rows& keys) {
  keys.push_back(settings_choice(
      "optimizer.kind", [](auto& s) -> auto& { return s.optimizer.kind; }, kOptimizerKinds,
      "the update rule; muon: of the blocks' matrices, adamw of the rest"));
  keys.back().equation =
      "adamw: m = β1 · m + (1 - β1) · g, v = β2 · v + (1 - β2) · g², w' = w · (1 - lr · decay) - "
      "lr · m̂ / (√v̂ + eps); adam_mini: v one for each block of rows; sgd: m = β1 · m + g, w' = "
      "w · (1 - lr · decay) - lr · m; muon: lr · m made orthogonal";
  keys.push_back(operand(
      "optimizer.moment1", [](auto& s) -> auto& { return s.optimizer.moment1; },
      "format of the first moment"));
  keys.push_back(operand(
      "optimizer.moment2", [](auto& s) -> auto& { return s.optimizer.moment2; },
      "format of the second moment"));
}

void add_gradient(Rows& keys) {
  using Reduce = GradientRecipe::Reduce;
  using Shard = GradientRecipe::Shard;
  using Start = GradientRecipe::Start;
  keys.push_back(settings_choice(
      "gradient.accumulate", [](auto& s) -> auto& { return s.gradient.accumulate; }, kComputes,
      "sum of a linear layer's weight gradient over micro-batches"));
  keys.push_back(operand(
      "gradient.communicate", [](auto& s) -> auto& { return s.gradient.communicate; },
      "format on the wire, and of a finished gradient until the update"));
  keys.push_back(settings_choice(
      "gradient.reduce", [](auto& s) -> auto& { return s.gradient.reduce; },
      Choices<Reduce>{{{"fp32", Reduce::fp32}, {"wire", Reduce::wire}}},
      "accumulator of the reduction over ranks"));
  keys.push_back(boolean_key<Settings>(
      "gradient.auto_scale", [](auto& s) -> auto& { return s.gradient.auto_scale; },
      "lower the scale while the wire format saturates"));
  keys.back().beside = R"(communicate = {format = "fp8_e4m3", scale = "pow2"})";
  keys.back().equation =
      "wire = round(μ · s · g), μ = 2^(k / growth_interval), k + 1 after a good step, else k - "
      "growth_interval";
  keys.push_back(settings_choice(
      "gradient.auto_scale_start", [](auto& s) -> auto& { return s.gradient.auto_scale_start; },
      Choices<Start>{{{"1/sqrt(N)", Start::root}, {"1/N", Start::share}, {"1", Start::one}}},
      "auto_scale: the first μ of a sum on the wire of N ranks"));
  keys.push_back(number_key<Settings>(
      "gradient.auto_scale_delta", [](auto& s) -> auto& { return s.gradient.auto_scale_delta; },
      {0, 1}, "auto_scale: share of saturated values that lowers the scale"));
  keys.back().formerly = "gradient.saturation_threshold";
  keys.push_back(integer_key<Settings>(
      "gradient.auto_scale_growth_after",
      [](auto& s) -> auto& { return s.gradient.auto_scale_growth_after; }, {1, 1'000'000},
      "auto_scale: good steps in a row from which on each raises the scale"));
  keys.push_back(integer_key<Settings>(
      "gradient.growth_interval", [](auto& s) -> auto& { return s.gradient.growth_interval; },
      {1, 1'000'000}, "auto_scale: raises that double it"));
  keys.push_back(settings_choice(
      "gradient.shard", [](auto& s) -> auto& { return s.gradient.shard; },
      Choices<Shard>{{{"flat", Shard::flat}, {"tensor", Shard::tensor}}},
      "how gradients are dealt to ranks"));
}

void add_attention(Rows& keys) {
  keys.push_back(settings_choice(
      "attention.probabilities", [](auto& s) -> auto& { return s.attention.probabilities; },
      kComputes,
      "what attention's softmax P and the gradient dS of its scores S are rounded to, to nearest, "
      "where they enter products; arithmetic is FP32 with either"));
  keys.back().equation = "O = P · V, dV = Pᵀ · dO, dQ = dS · K, dK = dSᵀ · Q";
}

void add_saved(Rows& keys) {
  keys.push_back(operand(
      "saved.norm", [](auto& s) -> auto& { return s.saved.norm; },
      "as what a block's norms keep their inputs for backward, which makes their outputs of that; "
      "fp32: as it was made"));
  keys.push_back(operand(
      "saved.activation", [](auto& s) -> auto& { return s.saved.activation; },
      "the same of GELU's input, or of gate and up"));
  keys.push_back(operand(
      "saved.attention", [](auto& s) -> auto& { return s.saved.attention; },
      "the same of q, k and v, and of attention's output"));
}

void add_communication(Rows& keys) {
  keys.push_back(operand(
      "communication.activations", [](auto& s) -> auto& { return s.communication.activations; },
      "format of gathered activations, between ranks"));
  keys.push_back(operand(
      "communication.weights", [](auto& s) -> auto& { return s.communication.weights; },
      "format of gathered weights, between ranks"));
  keys.push_back(operand(
      "communication.sums", [](auto& s) -> auto& { return s.communication.sums; },
      "format of parts of sums, between ranks that divide a layer"));
}

const Rows& all_rows() {
  static const Rows rows = [] {
    Rows all;
    add_linear(all);
    for (SettingsKey& key : weight_noise_keys()) {
      all.push_back(std::move(key));
      if (all.back().path == kNoiseCast) all.back().operand = narrow_noise_cast;
    }
    add_weights(all);
    add_optimizer(all);
    add_gradient(all);
    add_attention(all);
    add_saved(all);
    add_communication(all);
    return all;
  }();
  return rows;
}

const Settings& default_settings() {
  static const Settings defaults;
  return defaults;
}

bool is_default(const Row& row, const Settings& settings) {
  const Settings& defaults = default_settings();
  const Operand *here = row.operand_in(settings), *there = row.operand_in(defaults);
  if (here != nullptr && there != nullptr && *here == *there) return true;  // quicker
  return row.print(settings) == row.print(defaults);
}

bool is_linear_key(std::string_view path) {
  return path == "linear" || path.starts_with("linear.");
}

/// use(operand, item) for each operand that `patch` names.
template <class Use>
void visit_operands(const Settings& settings, const toml::table& patch, const std::string& prefix,
                    const Use& use) {
  for (const Row& row : all_rows())
    if (const Operand* operand = row.operand_in(settings))
      if (const auto item = find_item(patch, row.path, prefix)) use(*operand, *item);
}

}  // namespace

const Keys<RecipeSettings>& settings_keys() {
  static const Keys<RecipeSettings> keys(all_rows().begin(), all_rows().end());
  return keys;
}

void check_operands(const RecipeSettings& settings, const toml::table& patch,
                    const std::string& prefix) {
  visit_operands(settings, patch, prefix, check_rules);
}

std::vector<Error> unused_keys(const RecipeSettings& settings, const toml::table& patch,
                               const std::string& prefix) {
  std::vector<Error> errors;
  visit_operands(settings, patch, prefix, [&](const Operand& operand, const TomlItem& item) {
    for (Error& error : unused_keys(operand, item)) errors.push_back(std::move(error));
  });
  return errors;
}

bool is_override_key(std::string_view path) {
  return is_linear_key(path) || path.starts_with("weight_noise.") || path.starts_with("weights.");
}

bool is_phase_key(std::string_view path) { return path == "compute" || is_linear_key(path); }

std::string differing_keys(const RecipeSettings& settings) {
  std::vector<std::string> lines;
  for (const Row& row : all_rows()) {
    if (is_default(row, settings)) continue;
    const Operand* operand = row.operand_in(settings);
    lines.push_back(row.first_path() + " = " +
                    (operand != nullptr ? print_without_format(*operand) : row.print(settings)) +
                    "\n");
  }
  std::sort(lines.begin(), lines.end());
  std::string text;
  for (const std::string& line : lines) text += line;
  return text;
}

}  // namespace ng
