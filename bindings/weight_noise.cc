// Noise on the weight of a layer of another framework, and the gradients of what it learns.
#include "backend/noise_operations.h"
#include "base/json.h"
#include "cast_form.h"
#include "format/learned_formats.h"
#include "layer_run.h"
#include "nn/layer_noise.h"
#include "recipe/layer_names.h"
#include "recipe/recipe.h"
#include "run/transfer.h"
#include "tools/noise_file.h"

namespace ng::python {
namespace {

/// One layer's noise. Bit-widths and clip are FP32 matrices of the caller: b_i of each block; nipq:
/// its β and a.
class LayerWeightNoise {
 public:
  LayerWeightNoise(LayerRun& run, const Recipe& recipe, const std::string& name, int64_t depth,
                   int phase, int64_t outputs, int64_t inputs, uint32_t weight_id)
      : run_(run),
        recipe_(
            recipe
                .layer({.name = name, .block = layers::place_of(name).block, .depth = depth}, phase)
                .weight_noise),
        grid_(block_grid(recipe_.block, outputs, inputs)),
        weight_id_(weight_id) {}

  /// What noise is made of and what it costs, for whoever makes it otherwise; kind "none": there
  /// is none. formats: where blocks are cast by their bits, the elements for that, the narrowest
  /// first.
  [[nodiscard]] nb::dict form() const {
    Json formats = Json::array();
    if (recipe_.casts_by_table)
      for (const LearnedFormat& of : learned_formats()) formats.push_back(of.cast.element->name);
    const bool is_clipped = recipe_.kind == NoiseKind::nipq;
    return dict_of(Json{{"kind", name_of(recipe_.kind)},
                        {"shape", {grid_.down(), grid_.across()}},
                        {"is_one_block", recipe_.block.kind == Block::Kind::tensor},
                        {"first", first_bit_width(recipe_)},
                        {"b_init", recipe_.b_init},
                        {"b_target", recipe_.b_target},
                        {"decay", is_clipped ? 0 : recipe_.bitwidth_weight_decay},
                        {"loss", recipe_.bitwidth_loss},
                        {"cast", cast_form(recipe_.cast)},
                        {"formats", formats}});
  }

  /// ŵ into `y`, FP32 with the values of what the recipe casts to, and what noise is multiplied by.
  void add(const When& when, const Matrix& weight, const Matrix& bits,
           const std::optional<Matrix>& clip, const Matrix& y, const Matrix& scales) {
    const NoisyWeight of = noise_on(when, view_of_matrix(weight), bits, clip);
    const View out = view_of_matrix(y), kept = view_of_matrix(scales);
    run_.work(when, [&] {
      const auto add_into = [&](const View& to) {
        run_.run().execute(AddNoise{.y = to, .scales = kept, .of = of});
      };
      if (recipe_.casts_plainly()) return as_levels(out, add_into);
      add_into(out);
      if (!narrow_) narrow_.emplace(run_.run().backend(), recipe_.cast, out.rows, out.cols);
      run_.run().execute(cast_of_noisy(recipe_, narrow_->stored(), out, of));
      run_.run().execute(Store{stored_plainly(out), narrow_->view(), {}});
    });
  }
  /// What evaluation reads in its place where it is clipped.
  void quantize(const When& when, const Matrix& weight, const Matrix& bits,
                const std::optional<Matrix>& clip, const Matrix& y) {
    const NoisyWeight of = noise_on(when, view_of_matrix(weight), bits, clip);
    const View out = view_of_matrix(y);
    run_.work(when, [&] {
      as_levels(out,
                [&](const View& to) { run_.run().execute(QuantizeByProxy{.y = to, .of = of}); });
    });
  }
  /// Of dL/dŵ in `grad`, which becomes dL/dw: dL/db_i, without what bit-widths cost, and dL/da.
  void backward(const When& when, const Matrix& weight, const Matrix& bits,
                const std::optional<Matrix>& clip, const Matrix& scales, const Matrix& grad,
                const Matrix& bits_grad, const std::optional<Matrix>& clip_grad) {
    const NoisyWeight of = noise_on(when, view_of_matrix(weight), bits, clip);
    const View of_bits = view_of_matrix(bits_grad), of_clip = view_of_matrix(clip_grad);
    const View kept = view_of_matrix(scales), dw = view_of_matrix(grad);
    run_.work(when, [&] {
      run_.run().execute(
          AddNoiseBackward{.bits = of_bits, .clip = of_clip, .grad = dw, .scales = kept, .of = of});
      run_.run().execute(
          FinishNoiseGradient{.bits = of_bits, .clip = of_clip, .of = of, .lambda = 0});
    });
  }

 private:
  [[nodiscard]] NoisyWeight noise_on(const When& when, const ConstView& weight, const Matrix& bits,
                                     const std::optional<Matrix>& clip) const {
    return {.kind = recipe_.kind,
            .weight = weight,
            .bit_widths = view_of_matrix(bits),
            .clip = view_of_matrix(clip),
            .block = recipe_.block,
            .b_init = static_cast<float>(recipe_.b_init),
            .b_target = static_cast<float>(recipe_.b_target),
            .key = {.seed = run_.run().rounding_seed(), .tensor = weight_id_, .step = when.step},
            .bits_tensor = weight_id_};
  }
  /// Lets `make` write BF16, or FP32 where the recipe casts to that, and has it as FP32 in `y`.
  template <class Make>
  void as_levels(const View& y, const Make& make) {
    if (recipe_.cast.is_fp32()) return make(y);
    if (!rounded_) rounded_.emplace(run_.run().backend(), bf16_format(), y.rows, y.cols);
    make(rounded_->view());
    run_.run().execute(Copy{.y = y, .x = rounded_->view()});
  }

  LayerRun& run_;
  WeightNoise recipe_;
  BlockGrid grid_;
  uint32_t weight_id_;
  std::optional<TemporaryTensor> rounded_, narrow_;
};

}  // namespace

void add_weight_noise(nb::module_& module) {
  nb::class_<LayerWeightNoise>(module, "WeightNoise")
      .def(nb::init<LayerRun&, const Recipe&, const std::string&, int64_t, int, int64_t, int64_t,
                    uint32_t>(),
           nb::keep_alive<1, 2>(), "run"_a, "recipe"_a, "name"_a, "depth"_a, "phase"_a, "outputs"_a,
           "inputs"_a, "weight_id"_a)
      .def("form", &LayerWeightNoise::form)
      .def("add", &LayerWeightNoise::add, "when"_a, "weight"_a, "bits"_a, "clip"_a.none(), "y"_a,
           "scales"_a)
      .def("quantize", &LayerWeightNoise::quantize, "when"_a, "weight"_a, "bits"_a, "clip"_a.none(),
           "y"_a)
      .def("backward", &LayerWeightNoise::backward, "when"_a, "weight"_a, "bits"_a, "clip"_a.none(),
           "scales"_a, "grad"_a, "bits_grad"_a, "clip_grad"_a.none());
}

}  // namespace ng::python
