#include "model/parts_of_numbers.h"

#include "base/error.h"
#include "model/architecture.h"
#include "model/tensor_parallel.h"
#include "model/weights.h"
#include "recipe/layer_names.h"

namespace ng {
namespace {

/// One look at a model in parts; what does not fit is refused by name.
class Check {
 public:
  Check(const ModelConfig& config, const Recipe& recipe, const NumbersInParts& of,
        std::string_view place)
      : config_(config), recipe_(recipe), of_(of), place_(place) {}

  void tokens() const {
    if (of_.tokens % of_.parts != 0)
      refuse(fmt::format("{} tokens of a micro-batch", of_.tokens),
             "train.batch times model.context "
             "that they divide");
    const CommunicationRecipe& as = recipe_.settings(0).communication;
    wire("communication.activations", as.activations);
    wire("communication.sums", as.sums);
    if (as.sums.rounding == Rounding::stochastic)
      refuse("communication.sums that are stochastic", "nearest");
    if (as.sums.is_unscaled() && !as.sums.is_fp32() && as.sums.element != &bf16_format())
      refuse(fmt::format("communication.sums in {} without scales", as.sums.element->short_name),
             "bf16, fp32 or numbers with scales");
  }

  /// Of norms' inputs ranks have tokens, of the others columns.
  void saved() const {
    const SavedRecipe& as = recipe_.settings(0).saved;
    wire("saved.norm", as.norm);
    columns("saved.activation", as.activation, config_.ffn / of_.parts);
    columns("saved.attention", as.attention, config_.kv_heads / of_.parts * config_.head_dim);
  }

  void optimizer() const {
    const OptimizerRecipe& optimizer = recipe_.settings(0).optimizer;
    using Kind = OptimizerRecipe::Kind;
    if (optimizer.kind == Kind::adam_mini || optimizer.kind == Kind::muon)
      refuse(fmt::format("optimizer.kind = \"{}\", which moves whole matrices",
                         optimizer.kind == Kind::muon ? "muon" : "adam_mini"),
             "adamw or sgd");
  }

  /// A parameter as its first rank has it.
  void states(const ParameterSpec& spec) const {
    if (!spec.cut || spec.is_vector) return;
    const WeightStorage storage = weight_storage(recipe_, spec, config_.layers);
    const std::string name(layers::layer_of(spec.name));
    const bool has_master = storage.master != WeightStorage::Master::none;
    const bool is_plain = storage.storage.is_fp32() || has_master;
    using Rule = UpdateRule;
    if (!is_plain && storage.update != Rule::nearest && storage.update != Rule::kahan)
      refuse(name + ": weights.update draws or searches over the whole matrix",
             "\"nearest\", \"kahan\" or a master");
    const bool is_unscaled = storage.storage.is_unscaled();
    if (!is_plain && !is_unscaled && (storage.update != Rule::nearest || storage.momentum_feedback))
      refuse(name +
                 ": weights.storage has scales and weights.update gives back what rounding "
                 "loses",
             "\"nearest\" or a master");
    stored(name + ": weights.storage", storage.storage, spec);
    const OptimizerRecipe& optimizer = recipe_.settings(0).optimizer;
    stored("optimizer.moment1 of " + name, optimizer.moment1, spec);
    stored("optimizer.moment2 of " + name, optimizer.moment2, spec);
    stored("gradient.communicate of " + name, gradient_wire(recipe_, spec), spec);
  }

  void layer(const std::string& name, int64_t block, const ParameterSpec& weight) const {
    for (size_t phase = 0; phase < recipe_.phase_starts().size(); ++phase) {
      const LayerRecipe of = recipe_.layer({.name = name, .block = block, .depth = config_.layers},
                                           static_cast<int>(phase));
      if (of.weight_noise.kind != NoiseKind::none)
        refuse(name + ": weight_noise, which is learned of whole matrices", "none");
      const bool by_rows = weight.cut.axis == Cut::Axis::rows;
      const LinearRecipe& linear = of.linear;
      if (linear.fprop.narrows_output() || linear.dgrad.narrows_output())
        refuse(name + ": an output that is an operand, of whose sums ranks have parts",
               "\"compute\", \"bf16\" or \"fp32\"");
      // Which dimension of an operand (rows × reduction) is divided.
      if (by_rows) {
        operand(name + " fprop.weight", linear.fprop, linear.fprop.right, weight, false);
        operand(name + " dgrad.grad", linear.dgrad, linear.dgrad.left, weight, true);
        operand(name + " dgrad.weight", linear.dgrad, linear.dgrad.right, weight, true);
        operand(name + " wgrad.grad", linear.wgrad, linear.wgrad.left, weight, false);
      } else {
        operand(name + " fprop.input", linear.fprop, linear.fprop.left, weight, true);
        operand(name + " fprop.weight", linear.fprop, linear.fprop.right, weight, true);
        operand(name + " dgrad.weight", linear.dgrad, linear.dgrad.right, weight, false);
        operand(name + " wgrad.input", linear.wgrad, linear.wgrad.right, weight, false);
      }
    }
  }

  /// Its tokens are divided, its weights whole: plain numbers alone.
  void head() const {
    const LayerPlace place{.name = layers::kHead, .block = -1, .depth = config_.layers};
    for (size_t phase = 0; phase < recipe_.phase_starts().size(); ++phase) {
      const LinearRecipe linear = recipe_.layer(place, static_cast<int>(phase)).linear;
      for (const GemmRecipe* gemm : {&linear.fprop, &linear.dgrad, &linear.wgrad})
        if (!gemm->left.is_unscaled() || !gemm->right.is_unscaled() || gemm->hadamard != 0)
          refuse("a head in numbers with scales, which tokens of several ranks would share",
                 "a head in fp32, bf16 or fp16");
    }
  }

 private:
  [[noreturn]] void refuse(const std::string& problem, const std::string& remedy) const {
    throw Error({.place = std::string(place_),
                 .problem = fmt::format("{} ranks for {}", of_.parts, problem),
                 .remedy = remedy});
  }

  void wire(const std::string& key, const Operand& sent) const {
    if (sent.scaling == Scaling::delayed || sent.prescale != 1.0f)
      refuse(key + " with a delayed scale or a prescale", "neither");
    const int64_t rows = of_.tokens / of_.parts;
    if (sent.block.kind == Block::Kind::tile && rows % sent.block.rows != 0)
      refuse(fmt::format("{} tokens on each, {} of which share scales of {}", rows, sent.block.rows,
                         key),
             "blocks of fewer tokens");
  }

  /// Of a matrix in which `size` columns stay together.
  void columns(const std::string& key, const Operand& cast, int64_t size) const {
    if (cast.is_unscaled()) return;
    if (cast.block.kind == Block::Kind::row)
      refuse(key + " has a scale for each row, of which ranks have parts", "blocks");
    if (cast.block.kind == Block::Kind::tile && size % cast.block.cols != 0)
      refuse(
          fmt::format("{}: {} columns stay together, in blocks of {}", key, size, cast.block.cols),
          "whole blocks");
  }

  /// What lies side by side on a rank.
  [[nodiscard]] static int64_t size_of(const ParameterSpec& part) {
    return (part.cut.axis == Cut::Axis::rows ? part.rows : part.cols) / part.cut.bands;
  }

  void stored(const std::string& what, const Operand& cast, const ParameterSpec& part) const {
    if (cast.rounding == Rounding::stochastic)
      refuse(what + " is stochastic: it draws by its place in the whole", "nearest");
    if (cast.tensor_scale != ScaleKind::none)
      refuse(what + " has a second level of scales, of the whole matrix", "one level");
    const bool by_rows = part.cut.axis == Cut::Axis::rows;
    const int64_t size = size_of(part);
    if (cast.element->bits * (by_rows ? part.cols : size) % 8 != 0)
      refuse(fmt::format("{}: rows of {} values of {} bits", what, size, cast.element->bits),
             "whole bytes");
    if (cast.is_unscaled()) return;
    if (cast.block.kind == Block::Kind::row && !by_rows)
      refuse(what + " has a scale for each row, of which ranks have parts", "blocks");
    const int64_t block = by_rows ? cast.block.rows : cast.block.cols;
    if (cast.block.kind == Block::Kind::tile && size % block != 0)
      refuse(fmt::format("{}: {} {} on each in blocks of {}", what, size,
                         by_rows ? "rows" : "columns", block),
             "whole blocks");
  }

  /// `along`: the reduction is divided, else the rows are.
  void operand(const std::string& what, const GemmRecipe& gemm, const Operand& cast,
               const ParameterSpec& part, bool along) const {
    const int64_t size = size_of(part);
    if (cast.rounding != Rounding::nearest && (part.cut.bands > 1 || size % 8 != 0))
      refuse(fmt::format("{} is {}, but {}", what,
                         cast.rounding == Rounding::eden ? "eden" : "stochastic",
                         part.cut.bands > 1
                             ? std::string("q, k and v are one layer, of whose draws a rank has "
                                           "three parts")
                             : fmt::format("{} values on each are no multiple of 8", size)),
             "nearest, or a model whose sizes they divide");
    if (along && gemm.hadamard != 0 && size % gemm.hadamard != 0)
      refuse(fmt::format("{}: {} values on each, transforms of {}", what, size, gemm.hadamard),
             "whole transforms");
    if (cast.is_unscaled()) return;
    if (cast.scale_of != ScaleOf::amax && cast.block.kind == Block::Kind::tensor)
      refuse(what + " has the mean of the whole matrix for its scale", "blocks");
    for (const Block& shares : {cast.block, cast.tensor_block}) {
      if (along && shares.kind == Block::Kind::row)
        refuse(what + " has a scale for each row, of which ranks have parts", "blocks");
      const int64_t block = along ? shares.cols : shares.rows;
      if (shares.kind == Block::Kind::tile && size % block != 0)
        refuse(fmt::format("{}: {} values on each in blocks of {}", what, size, block),
               "whole blocks");
    }
  }

  const ModelConfig& config_;
  const Recipe& recipe_;
  NumbersInParts of_;
  std::string_view place_;
};

}  // namespace

void require_numbers_in_parts(const ModelConfig& config, const Recipe& recipe,
                              const NumbersInParts& of, std::string_view place) {
  if (of.parts == 1) return;
  const Check check(config, recipe, of, place);
  check.tokens();
  check.saved();
  check.optimizer();
  for (const ParameterSpec& spec : tensor_parallel_parts(parameter_table(config), of.parts)) {
    check.states(spec);
    const std::string layer(layers::layer_of(spec.name));
    if (spec.cut && !spec.is_vector) check.layer(layer, layers::place_of(layer).block, spec);
  }
  check.head();
}

}  // namespace ng
