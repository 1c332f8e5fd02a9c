#include "tools/noise_file.h"

#include <algorithm>
#include <cmath>
#include <deque>

#include "backend/drawn_noise.h"
#include "base/error.h"
#include "nn/layer_noise.h"
#include "recipe/layer_names.h"
#include "run/backends.h"
#include "run/transfer.h"
#include "tools/tensor_input.h"
#include "tools/tensor_layer.h"
#include "tools/tensor_output.h"
#include "train/bit_widths.h"

namespace ng {
namespace {

constexpr const char* kNoiseMark = "noise";  // of the metadata of what is written here

/// The noise of the layer that is meant.
WeightNoise noise_of(const Recipe& recipe, const LayerOfWeight& of) {
  const WeightNoise noise = recipe.layer(linear_place(of), 0).weight_noise;
  if (noise.kind == NoiseKind::none)
    throw Error({.place = recipe.place(),
                 .key = "weight_noise",
                 .problem = "gives no noise to " + of.name,
                 .remedy = "a kind, and layers that match it"});
  return noise;
}

/// A weight, its noise and what becomes of both.
class NoisyTensor {
 public:
  NoisyTensor(Backend& backend, const TensorInput& input, const WeightNoise& recipe,
              const std::string& layer, const NoiseFileSettings& settings)
      : backend_(backend), input_(input), recipe_(recipe) {
    const std::vector<ParameterSpec> learned =
        noise_parameters(recipe, layer, input.rows(), input.cols());
    const auto [rows, cols] = std::pair(learned.front().rows, learned.front().cols);
    const std::vector<float> weight = input.weight();
    of_ = {.kind = recipe.kind,
           .weight = put(weight, input.rows(), input.cols()),
           .bit_widths = {},
           .block = recipe.block,
           .b_init = static_cast<float>(recipe.b_init),
           .b_target = static_cast<float>(recipe.b_target),
           .key = {.seed = settings.seed, .tensor = settings.tensor_id, .step = settings.step},
           .bits_tensor = settings.tensor_id};
    scales_ = put({}, rows, cols);
    here_ = of_;
    set(&NoisyWeight::bit_widths, first_bits(rows, cols), rows, cols);
    if (input.has("noise"))
      set(&NoisyWeight::noise, input.matrix("noise", input.rows(), input.cols()), input.rows(),
          input.cols());
    if (recipe.kind != NoiseKind::nipq) return;
    const float most = *std::max_element(weight.begin(), weight.end());
    set(&NoisyWeight::clip, input.has("alpha") ? number("alpha") : std::vector<float>{most}, 1, 1);
    if (!input.has("u_bit")) return;
    const std::vector<float> u = number("u_bit");
    if (std::abs(u.front()) > 0.5f)
      input.refuse("u_bit", fmt::format("{}", u.front()), "from -0.5 to 0.5");
    set(&NoisyWeight::bit_noise, u, 1, 1);
  }

  [[nodiscard]] const NoisyWeight& of() const { return of_; }

  /// R or n of every element.
  [[nodiscard]] std::vector<float> noise() const {
    std::vector<float> noise;
    for (int64_t r = 0; r < of_.weight.rows; ++r)
      for (int64_t c = 0; c < of_.weight.cols; ++c) noise.push_back(noise_at(here_, r, c));
    return noise;
  }
  /// ŵ and the weight alone as FP32 values, both cast, and what noise was multiplied by, of each
  /// block.
  struct Forward {
    std::vector<float> weight, alone, scales;
  };
  [[nodiscard]] Forward forward() {
    const View y = put({}, of_.weight.rows, of_.weight.cols);
    backend_.execute(AddNoise{.y = y, .scales = scales_, .of = of_});
    return {.weight = cast(y), .alone = cast(of_.weight), .scales = download(backend_, scales_)};
  }
  /// b_t of each block; nipq: b as this step has it.
  [[nodiscard]] std::vector<float> bits() const {
    if (of_.kind == NoiseKind::nipq) return {static_cast<float>(proxy_of(here_).bits)};
    return bits_of(recipe_, host_.front());
  }

  struct Gradients {
    std::vector<float> weight, bits, b_i, clip;
  };
  /// After forward().
  [[nodiscard]] Gradients gradients() {
    const View grad = put(input_.matrix("grad", of_.weight.rows, of_.weight.cols), of_.weight.rows,
                          of_.weight.cols);
    const View bits = put({}, of_.bit_widths.rows, of_.bit_widths.cols);
    const View clip = of_.kind == NoiseKind::nipq ? put({}, 1, 1) : View();
    backend_.execute(
        AddNoiseBackward{.bits = bits, .clip = clip, .grad = grad, .scales = scales_, .of = of_});
    Gradients gradients{.weight = download(backend_, grad),
                        .bits = download(backend_, bits),
                        .b_i = {},
                        .clip = {}};
    backend_.execute(FinishNoiseGradient{.bits = bits,
                                         .clip = clip,
                                         .of = of_,
                                         .lambda = static_cast<float>(recipe_.bitwidth_loss)});
    gradients.b_i = download(backend_, bits);
    if (clip.rows > 0) gradients.clip = download(backend_, clip);
    return gradients;
  }

 private:
  /// FP32 values as the recipe casts ŵ.
  [[nodiscard]] std::vector<float> cast(const ConstView& x) {
    const TemporaryTensor y(backend_, recipe_.cast, x.rows, x.cols);
    backend_.execute(cast_of_noisy(recipe_, y.stored(), x, of_));
    return y.download();
  }
  /// Zeros where there are no values.
  View put(const std::vector<float>& values, int64_t rows, int64_t cols) {
    tensors_.emplace_back(backend_, rows, cols);
    if (!values.empty()) tensors_.back().upload(values);
    return tensors_.back().view();
  }
  /// What is learned or given, in the backend's memory and here.
  void set(ConstView NoisyWeight::*which, std::vector<float> values, int64_t rows, int64_t cols) {
    of_.*which = put(values, rows, cols);
    const auto* data =
        reinterpret_cast<const std::byte*>(host_.emplace_back(std::move(values)).data());
    here_.*which = {data, fp32_format(), rows, cols, cols};
  }
  [[nodiscard]] std::vector<float> number(const char* name) const {
    return input_.matrix(name, 1, 1);
  }
  [[nodiscard]] std::vector<float> first_bits(int64_t rows, int64_t cols) const {
    if (input_.has("b_i")) return input_.matrix("b_i", rows, cols);
    return std::vector<float>(static_cast<size_t>(rows * cols), first_bit_width(recipe_));
  }

  Backend& backend_;
  const TensorInput& input_;
  WeightNoise recipe_;
  std::deque<TemporaryTensor> tensors_;
  NoisyWeight of_;
  /// The same for what is computed here, all but the weight's values: memory of a card cannot be
  /// read.
  NoisyWeight here_;
  std::deque<std::vector<float>> host_;  ///< what `here_` shows; bit-widths first
  View scales_;
};

/// What an element's noise is multiplied by.
float scale_at(const NoisyWeight& of, const std::vector<float>& scales, int64_t row, int64_t col) {
  if (of.block.kind == Block::Kind::tensor) return scales.front();
  const int64_t block = row / kNoiseBlock * of.grid().across() + col / kNoiseBlock;
  return scales[static_cast<size_t>(block)];
}

/// Of all elements of a tensor.
struct Noised {
  std::vector<float> noise;
  NoisyTensor::Forward made;
};

void count(const Noised& of, const NoisyWeight& how, NoiseFileReport& report) {
  for (size_t i = 0; i < of.noise.size(); ++i) {
    report.not_finite += std::isfinite(of.made.weight[i]) ? 0 : 1;
    report.nonzero += of.noise[i] != 0 ? 1 : 0;
    const auto at = static_cast<int64_t>(i);
    const float added =
        of.noise[i] * scale_at(how, of.made.scales, at / how.weight.cols, at % how.weight.cols);
    report.lost += added != 0 && of.made.weight[i] == of.made.alone[i] ? 1 : 0;
  }
}

std::vector<std::string> unread_of(const TensorInput& input, NoiseKind kind) {
  if (input.is_by_name()) return {};
  std::vector<std::string> names = input.names_with("");
  const bool is_clipped = kind == NoiseKind::nipq;
  std::erase_if(names, [&](const std::string& name) {
    return name == "weight" || name == "b_i" || name == "grad" || name == "noise" ||
           (is_clipped && (name == "alpha" || name == "u_bit"));
  });
  return names;
}

NoiseFileReport add_noise_to(const std::string& in, const std::string& out, const Recipe& recipe,
                             const NoiseFileSettings& settings) {
  const TensorInput input(in, settings.tensors);
  const LayerOfWeight layer =
      layer_of_linear(input.weight_tensor(), settings.layer, settings.blocks);
  const WeightNoise noise_recipe = noise_of(recipe, layer);
  const std::unique_ptr<Backend> backend =
      make_backend(settings.backend, settings.threads, settings.thread_order);
  NoisyTensor tensor(*backend, input, noise_recipe, layer.name, settings);
  const std::vector<int64_t> shape = {input.rows(), input.cols()};
  const std::vector<int64_t> blocks = {tensor.of().bit_widths.rows, tensor.of().bit_widths.cols};
  OutputTensors output;
  const Noised of{.noise = tensor.noise(), .made = tensor.forward()};
  const std::vector<float> bits = tensor.bits();
  output.add("noise", shape) = of.noise;
  output.add("weight_hat", shape) = of.made.weight;
  output.add("scale", blocks) = of.made.scales;
  output.add("b_t", blocks) = bits;
  if (input.has("grad")) {
    NoisyTensor::Gradients gradients = tensor.gradients();
    output.add("grad.weight", shape) = std::move(gradients.weight);
    output.add("grad.b_t", blocks) = std::move(gradients.bits);
    output.add("grad.b_i", blocks) = std::move(gradients.b_i);
    if (!gradients.clip.empty()) output.add("grad.alpha", {1, 1}) = std::move(gradients.clip);
  }
  output.write(out, tensor_metadata(kNoiseMark, layer.name, recipe, tensor.of().key));
  NoiseFileReport report{.parameter = layers::weight_of(layer.name),
                         .kind = std::string(name_of(noise_recipe.kind)),
                         .is_turned = layer.is_turned,
                         .rows = input.rows(),
                         .cols = input.cols(),
                         .blocks = std::ssize(bits),
                         .unread = unread_of(input, noise_recipe.kind)};
  const BitWidths widths = figures_of(bits);
  report.least_bits = widths.least;
  report.mean_bits = widths.mean;
  report.most_bits = widths.most;
  count(of, tensor.of(), report);
  return report;
}

}  // namespace

std::string_view name_of(NoiseKind kind) {
  constexpr std::string_view kNames[] = {"none", "gaussws", "diffq", "nipq"};
  return kNames[static_cast<size_t>(kind)];
}

NoiseFileReport noise_file(const std::string& in, const std::string& out, const Recipe& recipe,
                           const NoiseFileSettings& settings) {
  require_tensor_output(out, in, recipe, kNoiseMark, "noise");
  return add_noise_to(in, out, recipe, settings);
}

}  // namespace ng
