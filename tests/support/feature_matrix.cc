#include "support/feature_matrix.h"

#include <array>
#include <map>
#include <optional>
#include <set>

#include "base/error.h"
#include "recipe/operand_keys.h"

namespace ng {
namespace {

/// Factors 0 ... kGradFactors - 1 are keys of the two gradient operands and may contradict each
/// other; factor 0 is their format. All others go with everything.
constexpr size_t kGradFactors = 9;
enum Factor : size_t {
  kInput = kGradFactors,
  kWeight,
  kGradient,
  kForwardHadamard,
  kHadamard,
  kSigns,
  kFrom,
  kCompute,
  kOutput,
  kSum,
  kCenter,
  kAttention,
  kSaved,
  kPhase,
  kOverride,
  kFactors
};

const std::vector<FeatureFactor>& factors() {
  static const std::vector<FeatureFactor> all = {
      {"gradient format",
       {"bf16", "fp32", "fp8_e5m2", "fp8_e4m3", "mxfp8_e5m2", "mxfp6_e2m3", "mxfp4", "nvfp4",
        "int8", "int4"}},
      {"block", {"", ", block = [32, 32]", ", block = [1, 128]", ", block = \"row\""}},
      {"scale rule",
       {"", ", scale_rule = \"rceil\"", ", scale_rule = \"ceil\"", ", scale_rule = \"even\"",
        ", scale_rule = \"mse\"", ", scale_rule = \"up\"", ", scale_of = \"rms\""}},
      {"rounding",
       {"", ", rounding = \"stochastic\"", ", rounding = \"stochastic\", sr_bits = 8",
        ", rounding = \"stochastic\", sr_bits = 32"}},
      {"scaling",
       {"", ", scaling = \"delayed\", amax_history = 2",
        ", scaling = \"delayed\", amax_compute = \"most_recent\", margin = 1"}},
      {"prescale", {"", ", prescale = 0.75"}},
      {"subnormals", {"", ", subnormals = \"flush\""}},
      {"overflow", {"", ", overflow = \"special\""}},
      {"second scale",
       {"", ", tensor_scale = \"none\"", ", tensor_scale = \"pow2\"", ", scale = \"pow2\"",
        ", tensor_block = \"row\"", ", tensor_block = [2, 64]"}},
      {"input",
       {"\"bf16\"", "\"fp32\"", "\"fp16\"", "\"fp8_e4m3\"", "\"mxfp8_e4m3\"", "\"mxfp6_e3m2\"",
        "\"mxfp4\"", "\"mxint8\"", "\"nvfp4\"", "\"int8\"",
        "{format = \"nvfp4\", element = [\"e2m1\", \"int4\"]}"}},
      {"weight",
       {"\"bf16\"", "\"fp32\"", "\"fp8_e4m3\"", "\"mxfp8_e5m2\"", "\"mxfp6_e2m3\"", "\"mxfp4\"",
        "\"nvfp4\"", "\"int8\"", "{format = \"mxfp4\", block = [32, 32]}",
        "{format = \"nvfp4\", block = [16, 16]}", "{format = \"fp8_e4m3\", block = [128, 128]}",
        "{format = \"fp8_e4m3\", scaling = \"delayed\"}",
        "{format = \"int4\", element = \"ternary\", block = \"tensor\", scale_of = \"mean_abs\"}"}},
      {"gradient", {"", ", gradient = \"clip\"", ", gradient = \"dge\", dge_k = 2"}},
      {"forward Hadamard", {"0", "32"}},
      {"Hadamard", {"0", "16", "32", "64", "128"}},
      {"signs", {"random", "fixed", "none", "layer"}},
      {"from", {"original", "fprop"}},
      {"compute", {"fp32", "bf16"}},
      {"output",
       {"\"compute\"", "\"fp32\"", "\"bf16\"", "\"int8\"",
        "{format = \"mxfp8_e4m3\", rounding = \"stochastic\"}"}},
      {"sum", {"chain", "tile32"}},             // where operands go with it
      {"center", {"none", "wide", "operand"}},  // the same
      {"attention", {"", "attention.probabilities = \"bf16\"\n"}},
      {"saved",
       {"",
        "saved = {norm = \"fp8_e4m3\", activation = \"fp8_e4m3\", attention = \"mxfp8_e4m3\"}\n",
        "saved.activation = {format = \"fp8_e4m3\", block = [1, 128]}\n"}},
      {"phase",
       {"", "[[phase]]\nstart = 0.5\nlinear.fprop = {input = \"bf16\", weight = \"bf16\"}\n",
        "[[phase]]\nstart = 0.5\ncompute = \"bf16\"\nlinear.dgrad.grad = \"mxfp8_e4m3\"\n"}},
      {"override",
       {"", "[[override]]\nblocks = \"-1:\"\nlinear = \"bf16\"\n",
        "[[override]]\nlayers = \"head\"\nlinear = \"mxfp8_e4m3\"\n"}},
  };
  return all;
}

std::string gradient_operand(const FeatureLevels& levels) {
  std::string text = "{format = \"" + std::string(factors()[0].levels[levels[0]]) + "\"";
  for (size_t f = 1; f < kGradFactors; ++f) text += factors()[f].levels[levels[f]];
  return text + "}";
}

/// An operand as a GEMM of a layer has it.
Operand read_of_layer(const std::string& text) {
  const toml::table table = parse_toml("grad = " + text, "feature matrix");
  TomlItem item = *find_item(table, "grad", "");
  item.path = "linear.dgrad.grad";
  Operand operand = operand_of("fp32");
  read_operand(operand, item);
  return operand;
}

/// Is the gradient's operand one? Asks the reader of recipes, once per combination.
class OperandCheck {
 public:
  bool fits(const FeatureLevels& levels) {
    const std::string text = gradient_operand(levels);
    const auto [at, is_new] = known_.emplace(text, false);
    if (is_new) at->second = is_operand(text);
    return at->second;
  }

 private:
  static bool is_operand(const std::string& text) {
    try {
      (void)read_of_layer(text);
      return true;
    } catch (const Error&) {
      return false;
    }
  }
  std::map<std::string, bool> known_;
};

/// Which pairs of levels no case has shown yet.
class OpenPairs {
 public:
  bool is_open(size_t f, size_t a, size_t g, size_t b) const {
    return f < g ? !seen_.contains({f, a, g, b}) : !seen_.contains({g, b, f, a});
  }
  void close(size_t f, size_t a, size_t g, size_t b) { seen_.insert({f, a, g, b}); }
  void close_all(const FeatureLevels& levels) {
    for (size_t f = 0; f < levels.size(); ++f)
      for (size_t g = f + 1; g < levels.size(); ++g) close(f, levels[f], g, levels[g]);
  }

 private:
  std::set<std::array<size_t, 4>> seen_;
};

/// Grows one case around a pair: factor after factor takes the level that closes most open pairs
/// with those chosen before.
class CaseBuilder {
 public:
  CaseBuilder(const OpenPairs& open, OperandCheck& check) : open_(open), check_(check) {}

  /// Empty where no gradient format goes with the pair.
  std::optional<FeatureLevels> build(size_t f, size_t a, size_t g, size_t b) {
    levels_.assign(kFactors, 0);
    chosen_.assign(kFactors, false);
    levels_[f] = a;
    levels_[g] = b;
    chosen_[f] = chosen_[g] = true;
    for (size_t factor = 0; factor < kFactors; ++factor)
      if (!chosen_[factor] && !choose(factor)) return std::nullopt;
    if (!check_.fits(levels_)) return std::nullopt;
    return levels_;
  }

 private:
  bool choose(size_t factor) {
    std::optional<size_t> best;
    size_t most = 0;
    for (size_t level = 0; level < factors()[factor].levels.size(); ++level) {
      levels_[factor] = level;
      if (factor < kGradFactors && !check_.fits(levels_)) continue;
      const size_t gain = open_pairs(factor, level);
      if (best && gain <= most) continue;
      best = level;
      most = gain;
    }
    if (!best) return false;
    levels_[factor] = *best;
    chosen_[factor] = true;
    return true;
  }

  size_t open_pairs(size_t factor, size_t level) const {
    size_t count = 0;
    for (size_t other = 0; other < kFactors; ++other)
      count += chosen_[other] && open_.is_open(factor, level, other, levels_[other]);
    return count;
  }

  const OpenPairs& open_;
  OperandCheck& check_;
  FeatureLevels levels_;
  std::vector<bool> chosen_;
};

}  // namespace

std::span<const FeatureFactor> feature_factors() { return factors(); }

namespace {

/// An operand, a format's name or a table with one, with `more` keys.
std::string operand_with(std::string_view operand, std::string_view more) {
  const bool is_table = operand.starts_with('{');
  const std::string_view keys = is_table ? operand.substr(1, operand.size() - 2) : operand;
  return fmt::format("{{{}{}{}}}", is_table ? "" : "format = ", keys, more);
}

bool is_of_bf16(std::string_view operand) {
  return read_of_layer(std::string(operand)).factors_are_bf16();
}

/// The key of a GEMM's sums, where its operands go with it.
std::string sum_key(std::string_view sum, std::string_view left, std::string_view right) {
  const bool goes = sum == "chain" || (is_of_bf16(left) && is_of_bf16(right));
  return goes ? fmt::format(", sum = \"{}\"", sum) : "";
}

std::string center_key(std::string_view center) { return fmt::format(", center = \"{}\"", center); }

}  // namespace

std::string feature_recipe(const FeatureLevels& levels) {
  NG_CHECK(levels.size() == kFactors, levels.size());
  const auto level = [&](size_t factor) { return factors()[factor].levels[levels[factor]]; };
  const std::string grad = gradient_operand(levels);
  const std::string backward =
      fmt::format("hadamard = {}, hadamard_signs = \"{}\"", level(kHadamard), level(kSigns));
  const auto forward = [&](size_t factor) {  // what wide elements and lists have no use for
    const bool is_wide = level(factor).ends_with("p16\"") || level(factor).ends_with("p32\"") ||
                         level(factor) == "\"bf16\"";
    const bool is_list = level(factor).find("element = [") != std::string_view::npos;
    return operand_with(level(factor), is_wide || is_list ? "" : level(kGradient));
  };
  const bool is_turned = level(kForwardHadamard) != "0" && !level(kGradient).empty();
  const std::string_view made_from = is_turned ? "fprop" : level(kFrom);
  const std::string from = fmt::format(", from = \"{}\"", made_from);
  const bool reads_all = made_from == "original" && level(kGradient).empty();  // of x, backward
  const std::string_view center = level(kCenter);
  return fmt::format(
      "compute = \"{}\"\n{}{}"
      "linear.fprop = {{input = {}, weight = {}, hadamard = {}, output = {}{}{}}}\n"
      "linear.dgrad = {{grad = {}, weight = {}, {}{}{}}}\n"
      "linear.wgrad = {{grad = {}, input = {}, {}{}{}}}\n{}{}",
      level(kCompute), level(kAttention), level(kSaved), forward(kInput), forward(kWeight),
      level(kForwardHadamard), level(kOutput), sum_key(level(kSum), level(kInput), level(kWeight)),
      center_key(reads_all ? center : "none"), grad, operand_with(level(kWeight), from), backward,
      sum_key(level(kSum), grad, level(kWeight)), center_key(center), grad,
      operand_with(level(kInput), from), backward, sum_key(level(kSum), grad, level(kInput)),
      center_key(center == "none" ? "none" : "wide"), level(kPhase), level(kOverride));
}

bool features_fit(const FeatureLevels& levels) { return OperandCheck().fits(levels); }

std::vector<FeatureLevels> feature_matrix() {
  OpenPairs open;
  OperandCheck check;
  CaseBuilder builder(open, check);
  std::vector<FeatureLevels> cases;
  for (size_t f = 0; f < kFactors; ++f)
    for (size_t g = f + 1; g < kFactors; ++g)
      for (size_t a = 0; a < factors()[f].levels.size(); ++a)
        for (size_t b = 0; b < factors()[g].levels.size(); ++b) {
          if (!open.is_open(f, a, g, b)) continue;
          open.close(f, a, g, b);
          if (const auto levels = builder.build(f, a, g, b)) {
            open.close_all(*levels);
            cases.push_back(*levels);
          }
        }
  return cases;
}

}  // namespace ng
