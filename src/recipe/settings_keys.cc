#include "recipe/settings_keys.h"

#include <algorithm>

#include "recipe/operand_keys.h"
#include "recipe/operand_rules.h"
#include "recipe/update_words.h"

namespace ng {
namespace {

using Settings = RecipeSettings;
using SettingsKey = Key<RecipeSettings>;
using enum UpdateRule;

/// A key, and where its operand lies if its value is one.
struct Row : SettingsKey {
  Row(SettingsKey key)  // NOLINT(google-explicit-constructor): every key is a row
      : SettingsKey(std::move(key)) {}
  std::function<const Operand&(const Settings&)> operand;
};
using Rows = std::vector<Row>;

const Choices<Compute> kComputes = {{{"fp32", Compute::fp32}, {"bf16", Compute::bf16}}};

template <class Enum, class Get>
SettingsKey settings_choice(std::string path, Get get, Choices<Enum> choices, std::string doc) {
  return choice_key<Settings>(std::move(path), get, std::move(choices), std::move(doc));
}

template <class Get>
Row operand(std::string path, Get get, std::string doc) {
  Row row = operand_key<Settings>(std::move(path), get, std::move(doc));
  row.operand = [=](const Settings& s) -> const Operand& { return get(s); };
  return row;
}

/// linear = "<format>": all six operands, and no Hadamard transform.
SettingsKey linear_key() {
  return {{.path = "linear",
           .expected = "a format name, or a table of fprop, dgrad and wgrad",
           .doc = "sets all six operands and hadamard = 0"},
          [](Settings& s, const TomlItem& item) {
            Operand all;
            read_operand(all, item);
            for (GemmRecipe* gemm : {&s.linear.fprop, &s.linear.dgrad, &s.linear.wgrad}) {
              gemm->left = gemm->right = all;
              gemm->hadamard = 0;
            }
          },
          [](const Settings&) { return std::string(); }};
}

template <class Get>
SettingsKey hadamard_key(const std::string& gemm, Get get) {
  const std::string expected = "0, 16, 32, 64 or 128";
  return {{.path = gemm + ".hadamard",
           .expected = expected,
           .doc = "size of the random Hadamard transform of both operands, 0: none"},
          [=](Settings& s, const TomlItem& item) {
            const int64_t size =
                item.value->is_integer() ? item.value->as_integer()->get() : int64_t{-1};
            if (size != 0 && size != 16 && size != 32 && size != 64 && size != 128)
              item.refuse_value(expected);
            get(s).hadamard = int(size);
          },
          [=](const Settings& s) { return print_value(int64_t{get(s).hadamard}); }};
}

/// The rows of one GEMM but its output. `get` leads to its GemmRecipe.
template <class Get>
void add_gemm(Rows& keys, const std::string& gemm, const char* left, const char* right, Get get) {
  keys.push_back(operand(
      gemm + "." + left, [=](auto& s) -> auto& { return get(s).left; },
      "left operand of the GEMM"));
  keys.push_back(operand(
      gemm + "." + right, [=](auto& s) -> auto& { return get(s).right; },
      "right operand of the GEMM"));
  keys.push_back(hadamard_key(gemm, get));
  keys.push_back(settings_choice(
      gemm + ".hadamard_signs", [=](auto& s) -> auto& { return get(s).hadamard_signs; },
      Choices<HadamardSigns>{{{"random", HadamardSigns::random},
                              {"fixed", HadamardSigns::fixed},
                              {"none", HadamardSigns::none}}},
      "signs before the transform: new ones for each layer and step, one fixed "
      "vector, or all plus"));
}

template <class Get>
SettingsKey output_key(std::string path, Get get) {
  return settings_choice(std::move(path), get,
                         Choices<OutputKind>{{{"compute", OutputKind::compute},
                                              {"bf16", OutputKind::bf16},
                                              {"fp32", OutputKind::fp32}}},
                         "what the result is rounded to; compute: as the key of that name says");
}

void add_linear(Rows& keys) {
  keys.push_back(settings_choice(
      "compute", [](auto& s) -> auto& { return s.compute; }, kComputes,
      "numbers of everything that is not a linear GEMM, and of the head"));
  keys.push_back(linear_key());
  add_gemm(
      keys, "linear.fprop", "input", "weight", [](auto& s) -> auto& { return s.linear.fprop; });
  keys.push_back(output_key(
      "linear.fprop.output", [](auto& s) -> auto& { return s.fprop_output; }));
  add_gemm(
      keys, "linear.dgrad", "grad", "weight", [](auto& s) -> auto& { return s.linear.dgrad; });
  keys.push_back(output_key(
      "linear.dgrad.output", [](auto& s) -> auto& { return s.dgrad_output; }));
  add_gemm(
      keys, "linear.wgrad", "grad", "input", [](auto& s) -> auto& { return s.linear.wgrad; });
}

SettingsKey noise_block_key() {
  const std::string expected = "[32, 32] or \"tensor\"";
  return {{.path = "weight_noise.block", .expected = expected, .doc = "weights of one bit-width"},
          [=](Settings& s, const TomlItem& item) {
            const Block block = read_block(item);
            const bool square = block.kind == Block::Kind::tile && block.rows == kNoiseBlock &&
                                block.cols == kNoiseBlock;
            if (!square && block.kind != Block::Kind::tensor) item.refuse_value(expected);
            s.weight_noise.block = block;
          },
          [](const Settings& s) { return print_block(s.weight_noise.block); }};
}

void add_weight_noise(Rows& keys) {
  using Kind = NoiseKind;
  keys.push_back(settings_choice(
      "weight_noise.kind", [](auto& s) -> auto& { return s.weight_noise.kind; },
      Choices<Kind>{{{"none", Kind::none},
                     {"gaussws", Kind::gaussws},
                     {"diffq", Kind::diffq},
                     {"nipq", Kind::nipq}}},
      "noise of the size of a quantization error added to weights"));
  keys.push_back(texts_key<Settings>(
      "weight_noise.layers", [](auto& s) -> auto& { return s.weight_noise.layers; },
      "a list of layer patterns", "layers that get noise; never embeddings or the head"));
  keys.push_back(boolean_key<Settings>(
      "weight_noise.optional", [](auto& s) -> auto& { return s.weight_noise.is_optional; },
      "whether no layer of a model need be one of them, which is an error else"));
  keys.push_back(noise_block_key());
  const auto number = [&](const char* name, auto get, NumberRange range, const char* doc) {
    keys.push_back(number_key<Settings>(std::string("weight_noise.") + name, get, range, doc));
  };
  number(
      "b_init", [](auto& s) -> auto& { return s.weight_noise.b_init; }, {0, 24},
      "bit-width at the start");
  number(
      "b_target", [](auto& s) -> auto& { return s.weight_noise.b_target; }, {0, 24},
      "bit-width that the decay pulls to");
  number(
      "bitwidth_weight_decay",
      [](auto& s) -> auto& { return s.weight_noise.bitwidth_weight_decay; }, {0, 1e6},
      "decoupled decay of the bit-widths");
  number(
      "bitwidth_loss", [](auto& s) -> auto& { return s.weight_noise.bitwidth_loss; }, {0, 1e6},
      "weight of the distance to b_target in the loss");
  keys.push_back(settings_choice(
      "weight_noise.cast", [](auto& s) -> auto& { return s.weight_noise.cast; }, kComputes,
      "format of the noisy weight"));
}

/// One rule, or a list of momentum_feedback with nearest or stochastic.
SettingsKey update_key() {
  std::vector<std::string_view> names = kUpdateRules.names();
  names.push_back("momentum_feedback");
  const std::string expected =
      one_of(names) + "; a list may join momentum_feedback with nearest or stochastic";
  return {{.path = "weights.update",
           .expected = expected,
           .doc = "how an update is rounded into weights without FP32 master"},
          [=](Settings& s, const TomlItem& item) {
            WeightStorage result = s.weights;
            result.update = nearest;
            result.momentum_feedback = false;
            int rules = 0;
            for (const std::string& name : read_texts(item)) {
              const toml::value<std::string> value(name);
              const size_t i = read_choice({&value, item.path, item.place}, names);
              if (i == kUpdateRules.items.size()) {
                result.momentum_feedback = true;
              } else {
                result.update = kUpdateRules.items[i].second;
                ++rules;
              }
            }
            if (rules > 1) item.refuse_value("one rule: two would round the same sum");
            if (result.momentum_feedback && result.update == precision_aware)
              item.refuse_value(
                  "one of them: what is fed back is the error of a step as long as "
                  "Adam's, and precision_aware takes another");
            if (result.momentum_feedback && result.update != nearest && result.update != stochastic)
              item.refuse_value("one of them: " + std::string(kUpdateRules.name_of(result.update)) +
                                " keeps the error beside the weight, and it would be made up for "
                                "twice");
            s.weights = result;
          },
          [](const Settings& s) { return update_text(s.weights); }};
}

SettingsKey residual_bits_key() {
  return {{.path = "weights.residual_bits", .expected = "8 or 4", .doc = "residual: bits of it"},
          [](Settings& s, const TomlItem& item) {
            const int64_t bits = item.value->is_integer() ? item.value->as_integer()->get() : 0;
            if (bits != 4 && bits != 8) item.refuse_value("8 or 4");
            s.weights.residual_bits = int(bits);
          },
          [](const Settings& s) { return print_value(int64_t{s.weights.residual_bits}); }};
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
  keys.push_back(update_key());
  keys.push_back(number_key<Settings>(
      "weights.rtol", [](auto& s) -> auto& { return s.weights.rtol; }, {0, 1, true, true},
      "precision_aware: relative tolerance"));
  keys.push_back(integer_key<Settings>(
      "weights.max_iters", [](auto& s) -> auto& { return s.weights.max_iters; }, {1, 1000},
      "precision_aware: most bisections"));
  keys.push_back(residual_bits_key());
}

void add_optimizer(Rows& keys) {
  keys.push_back(settings_choice(
      "optimizer.kind", [](auto& s) -> auto& { return s.optimizer.kind; }, kOptimizerKinds,
      "the update rule; muon: of the blocks' matrices, adamw of the rest"));
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
  keys.push_back(number_key<Settings>(
      "gradient.saturation_threshold",
      [](auto& s) -> auto& { return s.gradient.saturation_threshold; }, {0, 1},
      "auto_scale: share of saturated values that lowers the scale"));
  keys.push_back(integer_key<Settings>(
      "gradient.growth_interval", [](auto& s) -> auto& { return s.gradient.growth_interval; },
      {1, 1'000'000}, "auto_scale: good steps that double it"));
  keys.push_back(settings_choice(
      "gradient.shard", [](auto& s) -> auto& { return s.gradient.shard; },
      Choices<Shard>{{{"flat", Shard::flat}, {"tensor", Shard::tensor}}},
      "how gradients are dealt to ranks"));
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
    add_weight_noise(all);
    add_weights(all);
    add_optimizer(all);
    add_gradient(all);
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
  if (row.operand && row.operand(settings) == row.operand(defaults)) return true;  // quicker
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
    if (row.operand)
      if (const auto item = find_item(patch, row.path, prefix)) use(row.operand(settings), *item);
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
  for (const Row& row : all_rows())
    if (!is_default(row, settings))
      lines.push_back(
          row.path + " = " +
          (row.operand ? print_without_format(row.operand(settings)) : row.print(settings)) + "\n");
  std::sort(lines.begin(), lines.end());
  std::string text;
  for (const std::string& line : lines) text += line;
  return text;
}

}  // namespace ng
