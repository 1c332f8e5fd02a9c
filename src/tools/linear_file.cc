#include "tools/linear_file.h"

#include <algorithm>
#include <deque>
#include <memory>

#include "base/error.h"
#include "nn/outside_linear.h"
#include "numbers/errors.h"
#include "recipe/layer_names.h"
#include "run/backends.h"
#include "run/transfer.h"
#include "tools/operand_record.h"
#include "tools/tensor_layer.h"
#include "tools/tensor_output.h"

namespace ng {
namespace {

constexpr const char* kLinearMark = "linear";  // of the metadata of what is written here

/// The tensors of a layer: weight (N, K), input (T, K), grad (T, N), bias (N).
class LinearInput : public TensorInput {
 public:
  LinearInput(const std::string& path, const LinearFileSettings& settings)
      : TensorInput(path, settings.tensors),
        layer_(layer_of_linear(weight_tensor(), settings.layer, settings.blocks)),
        tokens_(rows_of("input", inputs(), "K, the weight's inputs")) {
    if (has("grad") && rows_of("grad", outputs(), "N, the weight's outputs") != tokens_)
      refuse(floats("grad").name, "has shape " + shape_text(floats("grad").shape),
             fmt::format("({}, {}): a row for each of the input's", tokens_, outputs()));
  }

  [[nodiscard]] const LayerOfWeight& layer() const { return layer_; }
  [[nodiscard]] int64_t outputs() const { return layer_.is_turned ? cols() : rows(); }
  [[nodiscard]] int64_t inputs() const { return layer_.is_turned ? rows() : cols(); }
  [[nodiscard]] int64_t tokens() const { return tokens_; }

  /// (N, K), also where the file has it turned.
  [[nodiscard]] std::vector<float> matrix_of_weight() const {
    std::vector<float> stored = weight();
    if (!layer_.is_turned) return stored;
    std::vector<float> turned(stored.size());
    for (int64_t n = 0; n < outputs(); ++n)
      for (int64_t k = 0; k < inputs(); ++k)
        turned[static_cast<size_t>(n * inputs() + k)] =
            stored[static_cast<size_t>(k * outputs() + n)];
    return turned;
  }
  [[nodiscard]] std::vector<float> input() const { return values("input"); }
  [[nodiscard]] std::vector<float> grad() const { return values("grad"); }
  /// N values.
  [[nodiscard]] std::vector<float> bias() const { return matrix("bias", outputs(), 1); }

 private:
  [[nodiscard]] std::vector<float> values(const char* name) const {
    std::vector<float> values = io::to_floats(floats(name));
    check_finite(floats(name), 0, values);
    return values;
  }
  /// Of a tensor (..., size), whose leading dimensions count as rows.
  [[nodiscard]] int64_t rows_of(const char* name, int64_t size, const char* what) const {
    const io::SafetensorsEntry& entry = floats(name);
    if (entry.shape.size() < 2 || entry.shape.back() != size || entry.elements() == 0)
      refuse(entry.name, "has shape " + shape_text(entry.shape),
             fmt::format("(T, {}), T > 0: {}", size, what));
    return entry.elements() / size;
  }

  LayerOfWeight layer_;
  int64_t tokens_;
};

/// The products of a layer under one recipe, and what they were made of.
struct Products {
  std::vector<RecordedOperand> operands;
  std::vector<OperandStats> stats;  ///< by OperandRole
  std::vector<float> output, input_grad, weight_grad;
};

OutsideLinear::Parts parts_of(const LinearInput& input, const LinearRecipe& recipe,
                              const LinearFileSettings& settings) {
  return {.name = input.layer().name,
          .phases = {recipe},
          .outputs = input.outputs(),
          .inputs = input.inputs(),
          .has_bias = input.has("bias"),
          .weight_id = settings.tensor_id,
          .input_id = settings.input_id.value_or(settings.tensor_id),
          .output_id = settings.output_id.value_or(settings.tensor_id)};
}

/// `records`: with the operands.
Products products_of(const LinearInput& input, const OutsideLinear::Parts& parts, bool records,
                     const LinearFileSettings& settings) {
  Run run(make_backend(settings.backend, settings.threads, settings.thread_order), settings.seed);
  run.set_moment({.step = settings.step, .micro = settings.micro, .first_micro = settings.micro});
  OutsideLinear layer(run, parts);
  auto* const stats = run.persistent_values<OperandStats>("operand stats", kOperandRoles);
  layer.linear().set_stats(stats);
  std::optional<OperandRecord> record;
  if (records) record.emplace(run);
  std::deque<TemporaryTensor> tensors;
  const auto put = [&](const std::vector<float>& values, int64_t rows, int64_t cols) {
    tensors.emplace_back(run.backend(), rows, cols);
    if (!values.empty()) tensors.back().upload(values);
    return tensors.back().view();
  };
  const int64_t t = input.tokens(), n = parts.outputs, k = parts.inputs;
  const OutsideLinear::Weights weights{.weight = put(input.matrix_of_weight(), n, k),
                                       .bias = parts.has_bias ? put(input.bias(), 1, n) : View()};
  const View x = put(input.input(), t, k), y = put({}, t, n);
  layer.forward(weights, x, y);
  Products products;
  products.output = download(run.backend(), y);
  if (input.has("grad")) {
    const View dx = put({}, t, k), dw = put({}, n, k);
    layer.backward(weights, {x}, put(input.grad(), t, n), {.input = dx, .weight = dw});
    products.input_grad = download(run.backend(), dx);
    products.weight_grad = download(run.backend(), dw);
  }
  if (record) products.operands = record->operands();
  products.stats = run.read(std::span<const OperandStats>(stats, kOperandRoles));
  return products;
}

std::vector<int64_t> grid_of(const Block& block, const ScaleShape& shape) {
  if (block.kind == Block::Kind::tensor) return {1};
  return {shape.rows, shape.cols};
}

void add_operand(OutputTensors& out, const RecordedOperand& made) {
  const Operand& cast = made.spec.cast;
  const std::vector<int64_t> shape = {made.spec.rows, made.spec.k_padded()};
  if (!made.codes.empty() && cast.element->bits <= 8) {
    const std::vector<uint8_t> bytes(made.codes.begin(), made.codes.end());
    out.add(made.role + ".codes", "U8", shape, std::as_bytes(std::span(bytes)));
  } else if (!made.codes.empty()) {
    out.add(made.role + ".codes", "U16", shape, std::as_bytes(std::span(made.codes)));
  }
  if (!made.scales.empty()) {
    const std::vector<int64_t> grid = grid_of(cast.block, made.shape);
    if (has_scale_codes(cast)) {
      const std::vector<uint8_t> codes = made.scale_codes();
      out.add(made.role + ".scale", "U8", grid, std::as_bytes(std::span(codes)));
    } else {
      out.add(made.role + ".scale", grid) = made.scales;
    }
    if (cast.scale == ScaleKind::e4m3)
      out.add(made.role + ".tensor_scale", grid_of(cast.tensor_block, made.levels)) =
          made.tensor_scales;
  }
  out.add(made.role + ".values", shape) = made.values;
}

LinearFigures operand_figures(const RecordedOperand& made, const OperandStats& stats) {
  const auto share = [&](uint64_t part) {
    return stats.values == 0 ? 0.0 : static_cast<double>(part) / static_cast<double>(stats.values);
  };
  return {.name = made.role,
          .numbers = describe(made.spec.cast),
          .rows = made.spec.rows,
          .cols = made.spec.k_padded(),
          .sqnr_db = made.sqnr_db,
          .saturated = share(stats.saturated),
          .flushed = share(stats.flushed)};
}

LinearFigures product_figures(const char* name, const GemmRecipe& gemm, int64_t rows, int64_t cols,
                              const std::vector<float>& made, const std::vector<float>& exact) {
  const std::string wide = gemm.output == Compute::bf16 ? "bf16" : "fp32";
  ErrorSums sums;
  sums.add(std::span<const float>(exact), std::span<const float>(made));
  return {.name = name,
          .numbers = gemm.narrows_output() ? describe(gemm.narrow_output) : wide,
          .rows = rows,
          .cols = cols,
          .sqnr_db = sums.metrics().sqnr_db};
}

/// Whether a layer that stands in the last block has other numbers than one of a deeper model.
bool differs_inside(const Recipe& recipe, LayerPlace place, int phase,
                    const LinearRecipe& numbers) {
  if (place.block < 0) return false;
  place.depth = layers::kMostBlocks;
  return !(recipe.linear(place, phase) == numbers);
}

LinearFileReport linear_of(const std::string& in, const std::string& out, const Recipe& recipe,
                           const LinearFileSettings& settings) {
  const LinearInput input(in, settings);
  const LayerOfWeight& layer = input.layer();
  const LayerPlace place = linear_place(layer, true);
  const LinearRecipe numbers = recipe.linear(place, settings.phase);
  const Products made = products_of(input, parts_of(input, numbers, settings), true, settings);
  const Products exact =
      products_of(input, parts_of(input, LayerRecipe().linear, settings), false, settings);
  const int64_t t = input.tokens(), n = input.outputs(), k = input.inputs();
  LinearFileReport report{
      .recipe = recipe.name(),
      .layer = layer.name,
      .is_turned = layer.is_turned,
      .is_last = layer.blocks == 0 && differs_inside(recipe, place, settings.phase, numbers),
      .tokens = t,
      .inputs = k,
      .outputs = n,
      .figures = {}};
  OutputTensors output;
  const auto add_product = [&](const char* name, const GemmRecipe& gemm, int64_t rows, int64_t cols,
                               const std::vector<float>& values, const std::vector<float>& fp32) {
    if (values.empty()) return;
    output.add(name, {rows, cols}) = values;
    report.figures.push_back(product_figures(name, gemm, rows, cols, values, fp32));
  };
  add_product("output", numbers.fprop, t, n, made.output, exact.output);
  add_product("input_grad", numbers.dgrad, t, k, made.input_grad, exact.input_grad);
  add_product("weight_grad", numbers.wgrad, n, k, made.weight_grad, exact.weight_grad);
  for (size_t i = 0; i < kOperandRoles; ++i)
    for (const RecordedOperand& operand : made.operands) {
      if (operand.role != name_of(static_cast<OperandRole>(i))) continue;
      add_operand(output, operand);
      report.figures.push_back(operand_figures(operand, made.stats[i]));
    }
  std::map<std::string, std::string> metadata =
      tensor_metadata(kLinearMark, layer.name, recipe,
                      {.seed = settings.seed, .tensor = settings.tensor_id, .step = settings.step});
  metadata["micro"] = std::to_string(settings.micro);
  metadata["input_id"] = std::to_string(settings.input_id.value_or(settings.tensor_id));
  metadata["output_id"] = std::to_string(settings.output_id.value_or(settings.tensor_id));
  output.write(out, metadata);
  return report;
}

}  // namespace

LinearFileReport linear_file(const std::string& in, const std::string& out, const Recipe& recipe,
                             const LinearFileSettings& settings) {
  require_tensor_output(out, in, recipe, kLinearMark, "layers");
  try {
    return linear_of(in, out, recipe, settings);
  } catch (const Unsupported& lack) {
    throw Error({recipe.place(), "", lack.what(), "another backend, or other numbers"});
  }
}

}  // namespace ng
