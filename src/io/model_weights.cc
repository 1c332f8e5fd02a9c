#include "io/model_weights.h"

#include <algorithm>
#include <cctype>

#include "base/error.h"
#include "io/model_files.h"
#include "model/weights.h"
#include "recipe/layer_names.h"
#include "recipe/matches.h"

namespace ng {
namespace {

LayerPlace place_of(const ModelConfig& config, std::string_view layer) {
  return {.name = layer, .block = layers::place_of(layer).block, .depth = config.layers};
}

/// A weight stored in the operand's numbers is read as it is stored. [recipes.md §7, rule g]
bool is_stored_so(const Operand& operand, const Operand& storage) {
  return !operand.is_unscaled() && !storage.is_unscaled() && *operand.element == *storage.element &&
         operand.block == storage.block;
}

}  // namespace

ModelWeights::ModelWeights(const io::ModelName& model, const std::optional<TrainedNumbers>& trained,
                           Threads threads)
    : trained_(trained),
      threads_(threads),
      model_(model),
      config_(io::read_model_config(model)),
      read_(io::open_model_weights(model, config_)) {
  if (trained) require_matches(trained->recipe, layers_of(config_));
}

void ModelWeights::read_row(size_t index, int64_t row, std::span<float> values) const {
  read_(index, row, values);
}

std::vector<std::string> ModelWeights::left_out() const {
  return io::left_out_of_model(model_, config_);
}

std::vector<float> ModelWeights::values(const io::HfTensor& tensor) const {
  const auto cols = static_cast<size_t>(tensor.spec.cols);
  std::vector<float> values(static_cast<size_t>(tensor.spec.rows) * cols);
  for (int64_t row = 0; row < tensor.spec.rows && tensor.parameter >= 0; ++row)
    read_(static_cast<size_t>(tensor.parameter), row,
          std::span(values).subspan(static_cast<size_t>(row) * cols, cols));
  return values;
}

bool is_block_matrix(const ParameterSpec& spec) {
  return !spec.is_vector && layers::place_of(spec.name).block >= 0;
}

Operand ModelWeights::trained_operand(const ParameterSpec& spec, const std::string& shown) const {
  const Recipe& recipe = trained_->recipe;
  const std::string layer(layers::layer_of(spec.name));
  const LayerRecipe numbers = recipe.layer(place_of(config_, layer), trained_->phase.index);
  const GemmRecipe& fprop = numbers.linear.fprop;
  const auto refuse = [&](const std::string& has) {
    throw Error({.place = trained_->shown,
                 .key = shown,
                 .problem = fmt::format("fprop's weight has {}", has),
                 .remedy = "export without --weights trained"});
  };
  if (numbers.weight_noise.kind != NoiseKind::none) refuse("noise, another one in every step");
  if (fprop.hadamard > 0) refuse(fmt::format("a Hadamard transform of {}", fprop.hadamard));
  if (fprop.right.rounding == Rounding::stochastic) refuse("stochastic rounding");
  if (fprop.right.prescale != 1) refuse(fmt::format("a prescale of {:g}", fprop.right.prescale));
  if (fprop.right.tensor_block != Block())
    refuse(fmt::format("second scales of {}", text_of(fprop.right.tensor_block)));
  if (fprop.right.other != nullptr)
    refuse(fmt::format("blocks of {} and of {}", fprop.right.element->short_name,
                       fprop.right.other->short_name));
  if (fprop.right.scaling == Scaling::delayed)
    refuse("a delayed scale, which is the history's and not in a model folder");
  if (is_stored_so(fprop.right, numbers.weights.storage))
    return numbers.weights.storage.rounded_by(Rounding::nearest);
  return fprop.right;
}

bool is_wide(const Operand& operand) {
  constexpr int kWideBits = 16;
  return operand.is_unscaled() && operand.element->bits >= kWideBits;
}

void ModelWeights::require_held(const ParameterSpec& spec, const std::string& shown, bool is_held,
                                std::string_view type, const std::string& remedy) const {
  if (is_held) return;
  throw Error({.place = trained_->shown,
               .key = shown,
               .problem = fmt::format("fprop's weight is {}, which {} does not hold",
                                      describe(trained_operand(spec, shown)), type),
               .remedy = trained_->phase.count > 1 ? remedy + ", or another --phase" : remedy});
}

bool ModelWeights::has_trained_codes(const ParameterSpec& spec, const std::string& shown) const {
  return is_trained(spec) && !trained_operand(spec, shown).is_fp32();
}

std::optional<std::string> ModelWeights::note_of_wide(std::span<const std::string> tensors,
                                                      const ParameterSpec& first,
                                                      std::string_view type) const {
  if (tensors.empty()) return {};
  const Operand operand = trained_operand(first, tensors.front());
  if (operand.is_fp32() && type == "F32") return {};
  const std::string others =
      tensors.size() == 1 ? "" : fmt::format(" and {} others", tensors.size() - 1);
  std::string codes(operand.element->short_name);
  std::transform(codes.begin(), codes.end(), codes.begin(),
                 [](unsigned char c) { return static_cast<char>(std::toupper(c)); });
  const std::string how = operand.is_fp32() ? fmt::format("it is rounded to {}", type)
                                            : fmt::format("its codes are {} numbers", codes);
  return fmt::format("fprop's weight of {}{} is {}: {}", tensors.front(), others, describe(operand),
                     how);
}

NarrowMatrix ModelWeights::trained_matrix(const ParameterSpec& spec,
                                          std::span<const float> values) const {
  const Operand operand = trained_operand(spec, spec.hf_name);
  const Rows<const float> rows{values.data(), spec.rows, spec.cols, spec.cols};
  NarrowMatrix narrow = quantize(rows, operand, {}, threads_);
  const std::string layer(layers::layer_of(spec.name));
  const Operand storage = trained_->recipe.layer(place_of(config_, layer), 0).weights.storage;
  if (!is_stored_so(operand, storage)) return narrow;
  const std::vector<float> decoded = dequantize(narrow, threads_);
  if (std::equal(decoded.begin(), decoded.end(), values.begin())) return narrow;
  throw Error({.place = trained_->shown,
               .key = spec.hf_name,
               .problem = "is stored in these numbers, and its values do not give its codes back",
               .remedy = "export without --weights trained"});
}

}  // namespace ng
