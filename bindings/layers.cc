// Linear layers over arrays of others: what narrowgauge.torch computes by.
#include <nanobind/stl/array.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/vector.h>

#include <cmath>
#include <optional>

#include "base/json.h"
#include "bind.h"
#include "cast_form.h"
#include "kept_input.h"
#include "layer_run.h"
#include "nn/operand_role.h"
#include "nn/outside_linear.h"
#include "numbers/narrow_matrix.h"
#include "recipe/layer_names.h"
#include "recipe/recipe.h"
#include "report/recipe_text.h"

namespace ng::python {
namespace {

using Scales = Row<float>;
using Bytes = Row<uint8_t>;

std::span<uint8_t> span_of(const Bytes& bytes) { return {bytes.data(), bytes.size()}; }

/// KeptInput of a device: what its backend has packed, byte by byte.
struct KeptThere {
  OperandSpec spec;

  /// Whatever the rows, no less than operand_bytes() of them, which are as many for each row of
  /// blocks but for where parts begin.
  [[nodiscard]] KeptInput::Size size(const Run& run) const {
    constexpr int64_t kMany = 128, kRoom = 512;
    const Block& block = spec.cast.block;
    const bool is_tile = !spec.cast.is_unscaled() && block.kind == Block::Kind::tile;
    KeptInput::Size size{.rows_of_block = is_tile ? block.rows : 1, .others = kRoom};
    const auto bytes = [&](int64_t blocks) {
      OperandSpec some = spec;
      some.rows = blocks * size.rows_of_block;
      return static_cast<int64_t>(run.operand_bytes(some));
    };
    size.scales = (bytes(1 + kMany) - bytes(1) + kMany - 1) / kMany;
    size.others += std::max<int64_t>(bytes(1) - size.scales, 0);
    return size;
  }
  void put(Run& run, const PackedOperand& packed, const Bytes& kept) const {
    NG_CHECK(packed.bytes + sizeof(float) <= kept.size(), packed.bytes, kept.size());
    run.execute(
        Copy{.y = words(kept.data(), packed.bytes), .x = words(packed.storage, packed.bytes)});
  }
  void get(Run& run, const Bytes& kept, const View& values) const {
    const PackedOperand packed = {.spec = spec,
                                  .source = {},
                                  .storage = reinterpret_cast<std::byte*>(kept.data()),
                                  .bytes = run.operand_bytes(spec)};
    NG_CHECK(kept.size() >= packed.bytes, kept.size(), packed.bytes);
    run.execute(Unpack{.packed = &packed, .values = values, .undoes_prescale = true});
  }

 private:
  /// Bytes as FP32 in a row, whose bits a copy leaves as they are; the last word has all of it.
  template <class Byte>
  static View words(Byte* bytes, size_t count) {
    const auto size = static_cast<int64_t>((count + sizeof(float) - 1) / sizeof(float));
    return {reinterpret_cast<std::byte*>(bytes), fp32_format(), 1, size, size};
  }
};

/// One layer of a LayerRun.
class Layer {
 public:
  Layer(LayerRun& run, const Recipe& recipe, const std::string& name, int64_t depth, int phase,
        int64_t outputs, int64_t inputs, bool has_bias, const std::array<uint32_t, 3>& ids)
      : run_(run),
        layer_(run.run(),
               {.name = name,
                .phases = recipe.linears(
                    {.name = name, .block = layers::place_of(name).block, .depth = depth}),
                .outputs = outputs,
                .inputs = inputs,
                .has_bias = has_bias,
                .weight_id = ids[0],
                .input_id = ids[1],
                .output_id = ids[2]}) {
    set_phase(phase);
  }

  /// Delayed scales that are others then begin anew.
  void set_phase(int phase) {
    run_.work({}, [&] { layer_.set_phase(static_cast<size_t>(phase)); });
  }

  /// `kept`: gets what the product read of x, where kept_form() says that backward takes it.
  void forward(const When& when, bool keeps, const Matrix& weight,
               const std::optional<Matrix>& bias, const Matrix& x, const Matrix& y,
               const std::optional<Bytes>& kept) {
    const OutsideLinear::Weights weights{view_of_matrix(weight), view_of_matrix(bias)};
    const View in = view_of_matrix(x), out = view_of_matrix(y);
    OutsideLinear::Taker taker;
    if (kept)
      taker = [&](const PackedOperand& packed) {
        if (run_.is_cpu()) return kept_input().write(packed, span_of(*kept), run_.threads());
        kept_there(packed.spec.rows).put(run_.run(), packed, *kept);
      };
    run_.work(when, [&] {
      layer_.keep_weight(keeps);
      layer_.forward(weights, in, out, taker);
    });
  }
  /// What forward() kept, as FP32 (T, kept_form().cols).
  void read_kept(const When& when, const Bytes& kept, const Matrix& values) {
    const View to = view_of_matrix(values);
    run_.work(when, [&] {
      if (run_.is_cpu()) return kept_input().read(span_of(kept), to.as<float>(), run_.threads());
      kept_there(to.rows).get(run_.run(), kept, to);
    });
  }
  /// Columns of what is kept of x, and the numbers of KeptInput::Size; empty: x itself is.
  [[nodiscard]] std::vector<int64_t> kept_form() const {
    const int64_t cols = layer_.linear().columns_read();
    if (cols == 0 || !KeptInput::is_narrow(input_cast())) return {};
    const KeptInput::Size size =
        run_.is_cpu() ? kept_input().size() : kept_there(0).size(run_.run());
    return {cols, size.bits_of_row, size.rows_of_block, size.scales, size.others};
  }

  /// Whether the gradient of x is made of x, too.
  [[nodiscard]] bool reads_input() const { return layer_.linear().dgrad_reads_input(); }

  /// `is_read`: x is what read_kept() gave.
  void backward(const When& when, bool keeps, const Matrix& weight,
                const std::optional<Matrix>& bias, const Matrix& x, bool is_read, const Matrix& dy,
                const std::optional<Matrix>& dx, const std::optional<Matrix>& dw,
                const std::optional<Matrix>& db) {
    const OutsideLinear::Weights weights{view_of_matrix(weight), view_of_matrix(bias)};
    const View in = view_of_matrix(x), grad = view_of_matrix(dy);
    const OutsideLinear::Gradients gradients{view_of_matrix(dx), view_of_matrix(dw),
                                             view_of_matrix(db)};
    run_.work(when, [&] {
      layer_.keep_weight(keeps);
      layer_.backward(weights, {in, is_read}, grad, gradients);
    });
  }

  /// Of each operand the values of its history of a delayed scale, in any phase; 0: it has none.
  [[nodiscard]] std::vector<int> histories() const { return layer_.linear().histories(); }
  [[nodiscard]] size_t state_size() const { return layer_.linear().first_state().size(); }
  void place_state(const Scales& memory) {
    NG_CHECK(memory.size() == state_size(), memory.size());
    layer_.linear().place_state(memory.data());
  }
  void roll_scales(const When& when) {
    run_.work(when, [&] { layer_.linear().roll_scales(run_.run(), false); });
  }
  /// The three products as text, fprop, dgrad, wgrad, how each is computed, and of how many values
  /// along the reduction they are made: zeros fill the last ones.
  [[nodiscard]] nb::list products() const {
    const LinearRecipe& recipe = layer_.linear().recipe();
    nb::list list;
    for (const OperandRole role :
         {OperandRole::fprop_input, OperandRole::dgrad_grad, OperandRole::wgrad_grad}) {
      Json product = report::gemm_json(gemm_of(recipe, role), "cpu");
      product["k_multiple"] = operand_form(recipe, role).k_multiple;
      list.append(python_of(product));
    }
    return list;
  }
  /// Of the weight's operand of fprop: codes and scales.
  [[nodiscard]] size_t weight_bytes() const {
    const int64_t rows = layer_.parts().outputs, cols = layer_.parts().inputs;
    const double bits =
        stored_bits_per_value(layer_.linear().recipe().fprop.right, Contract::cols, rows, cols);
    return static_cast<size_t>(std::ceil(bits * static_cast<double>(rows * cols) / 8));
  }
  /// The three products for whoever computes them otherwise: of each operand its keys as TOML and
  /// the row of its element.
  [[nodiscard]] nb::dict form() const {
    constexpr const char* kSigns[] = {"random", "fixed", "none", "layer"};
    constexpr const char* kCenters[] = {"none", "wide", "operand"};
    const LinearRecipe& recipe = layer_.linear().recipe();
    const auto product = [&](const GemmRecipe& gemm) {
      Json form{{"left", cast_form(gemm.left)},
                {"right", cast_form(gemm.right)},
                {"hadamard", gemm.hadamard},
                {"hadamard_signs", kSigns[static_cast<size_t>(gemm.hadamard_signs)]},
                {"center", kCenters[static_cast<size_t>(gemm.center)]},
                {"output", gemm.output == Compute::bf16 ? "bf16" : "fp32"}};
      form["narrow_output"] = gemm.narrows_output() ? cast_form(gemm.narrow_output) : Json();
      return form;
    };
    return dict_of(Json{{"fprop", product(recipe.fprop)},
                        {"dgrad", product(recipe.dgrad)},
                        {"wgrad", product(recipe.wgrad)}});
  }
  /// Of delayed operands, before the first step.
  [[nodiscard]] Values first_state() const {
    return array_of(layer_.linear().first_state(), {layer_.linear().first_state().size()});
  }
  [[nodiscard]] size_t kept_bytes() const { return layer_.kept_bytes(); }

 private:
  [[nodiscard]] const Operand& input_cast() const {
    return layer_.linear().cast(OperandRole::fprop_input);
  }
  [[nodiscard]] KeptInput kept_input() const {
    return {input_cast(), layer_.linear().columns_read()};
  }
  [[nodiscard]] KeptThere kept_there(int64_t rows) const {
    OperandSpec spec = operand_form(layer_.linear().recipe(), OperandRole::fprop_input);
    spec.rows = rows;
    spec.k = layer_.parts().inputs;
    return {spec};
  }

  LayerRun& run_;
  OutsideLinear layer_;
};

}  // namespace

void add_layers(nb::module_& module) {
  nb::class_<When>(module, "When")
      .def(nb::init<uint32_t, uint32_t, bool, bool, uint64_t>(), "step"_a, "micro"_a, "evaluates"_a,
           "repeats"_a, "stream"_a);
  nb::class_<LayerRun>(module, "LayerRun")
      .def(nb::init<uint64_t, int64_t, const std::string&, int>(), "seed"_a, "threads"_a,
           "backend"_a, "device"_a);
  module.def("backends", [] {
    nb::list names;
    for (const std::string_view name : backend_names()) names.append(std::string(name));
    return names;
  });
  nb::class_<Layer>(module, "Layer")
      .def(nb::init<LayerRun&, const Recipe&, const std::string&, int64_t, int, int64_t, int64_t,
                    bool, const std::array<uint32_t, 3>&>(),
           nb::keep_alive<1, 2>(), "run"_a, "recipe"_a, "name"_a, "depth"_a, "phase"_a, "outputs"_a,
           "inputs"_a, "has_bias"_a, "ids"_a)
      .def("forward", &Layer::forward, "when"_a, "keeps"_a, "weight"_a, "bias"_a.none(), "x"_a,
           "y"_a, "kept"_a.none())
      .def("read_kept", &Layer::read_kept, "when"_a, "kept"_a, "values"_a)
      .def_prop_ro("kept_form", &Layer::kept_form)
      .def_prop_ro("reads_input", &Layer::reads_input)
      .def("backward", &Layer::backward, "when"_a, "keeps"_a, "weight"_a, "bias"_a.none(), "x"_a,
           "is_read"_a, "dy"_a, "dx"_a.none(), "dw"_a.none(), "db"_a.none())
      .def("set_phase", &Layer::set_phase, "phase"_a)
      .def_prop_ro("state_size", &Layer::state_size)
      .def_prop_ro("histories", &Layer::histories)
      .def("place_state", &Layer::place_state, "memory"_a.noconvert())
      .def("roll_scales", &Layer::roll_scales, "when"_a)
      .def_prop_ro("products", &Layer::products)
      .def_prop_ro("weight_bytes", &Layer::weight_bytes)
      .def("form", &Layer::form)
      .def("first_state", &Layer::first_state)
      .def_prop_ro("kept_bytes", &Layer::kept_bytes);
}

}  // namespace ng::python
