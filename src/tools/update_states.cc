#include "tools/update_states.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "format/codec.h"
#include "run/transfer.h"
#include "tools/stored_values.h"

namespace ng {
namespace {

bool is_started_by_weight(std::string_view state) { return state == "weight" || state == "master"; }

bool is_scale_of(const Operand& cast, float scale) {
  if (cast.is_unscaled()) return scale == 1;
  if (!(scale > 0) || !std::isfinite(1.0f / scale)) return false;
  int exponent = 0;
  if (cast.scale == ScaleKind::pow2) return std::frexp(scale, &exponent) == 0.5f;
  const ElementFormat& element = scale_element(cast);
  return decode(element, encode(element, scale)) == scale;
}

/// The stored scales that the file gives a weight; its master, where it has one, is what is stored.
void put_weight_scales(const UpdateInput& input, Backend& backend, const UpdatedWeight& weight) {
  const std::string name = "weight.scale";
  if (!input.has(name)) return;
  const Stored& value = weight.value;
  const Operand& cast = value.cast;
  if (cast.tensor_scale != ScaleKind::none)
    input.refuse(name, "beside " + describe(cast) + ", whose scales have two levels",
                 "no weight.scale: those of the weight are found");
  const ScaleShape shape =
      cast.is_unscaled() ? ScaleShape{1, 1} : scale_shape(cast, value.view.rows, value.view.cols);
  const std::vector<float> scales = input.scales(name, shape.rows * shape.cols);
  const auto bad = std::find_if_not(scales.begin(), scales.end(),
                                    [&](float scale) { return is_scale_of(cast, scale); });
  if (bad != scales.end())
    input.refuse(name,
                 fmt::format("{} beside weights in {}", *bad,
                             cast.is_unscaled() ? cast.element->short_name : describe(cast)),
                 cast.is_unscaled() ? "1, or no weight.scale"
                                    : "a scale of that kind, what elements are multiplied by");
  if (cast.is_unscaled()) return;
  const std::vector<float> values =
      weight.master ? download(backend, weight.master.view) : input.weight();
  const size_t saturated = put_under_scales(backend, value, values, scales);
  if (saturated > 0 && !weight.master)
    input.refuse(name, fmt::format("{} values of weight do not fit under it", saturated),
                 "the scale that the weight is stored with");
}

constexpr std::string_view kState = "state.";

[[noreturn]] void refuse_state(const UpdateInput& input, const std::string& tensor,
                               const TensorUpdate& update) {
  std::string names;
  for (const NamedState& state : update.states())
    if (!is_started_by_weight(state.name)) names += fmt::format(" {}{}", kState, state.name);
  input.refuse(tensor, "is no state of this update",
               names.empty() ? "none: it has no states" : names.substr(1));
}

void put_states(const UpdateInput& input, Run& run, TensorUpdate& update) {
  for (const std::string& tensor : input.names_with(kState)) {
    const std::string name = tensor.substr(kState.size());
    const NamedState* state = is_started_by_weight(name) ? nullptr : update.find(name);
    if (state == nullptr) refuse_state(input, tensor, update);
    const View& view = state->tensor.view;
    const std::vector<float> values = input.matrix(tensor, view.rows, view.cols);
    if (name == "moment2" &&
        std::any_of(values.begin(), values.end(), [](float v) { return v < 0; }))
      input.refuse(tensor, "has values below zero", "means of squares");
    if (name != "residual" || !update.has_residual()) {
      put_state(run, state->tensor, values);
      if (state->tensor.cast.is_coded()) update.give(*state, values);
      continue;
    }
    const auto bad = put_residual(run.backend(), update.parameter().weight, values);
    if (!bad) continue;
    const auto cols = static_cast<size_t>(view.cols);
    input.refuse(tensor,
                 fmt::format("{} at ({}, {}) is not within half an ulp of the stored weight",
                             values[*bad], *bad / cols, *bad % cols),
                 "w + c");
  }
}

std::vector<io::SafetensorsTensor> tensors_of(const TensorUpdate& update,
                                              const std::vector<int64_t>& steps) {
  std::vector<io::SafetensorsTensor> list;
  for (const int64_t step : steps)
    for (const NamedState& state : update.states()) {
      const std::string name = fmt::format("step{}.{}", step, state.name);
      const View& view = state.tensor.view;
      const Operand& cast = state.tensor.cast;
      list.push_back({name, "F32", {view.rows, view.cols}, nullptr});
      if (view.element->bits <= 16)
        list.push_back(
            {name + ".codes", code_dtype(*view.element), {view.rows, view.cols}, nullptr});
      if (view.low != nullptr)
        list.push_back(
            {name + ".low.codes", code_dtype(*view.element), {view.rows, view.cols}, nullptr});
      if (!view.has_scales()) continue;
      const ScaleShape grid = scale_shape(cast, view.rows, view.cols);
      const bool is_one = cast.block.kind == Block::Kind::tensor;
      const std::vector<int64_t> shape =
          is_one ? std::vector<int64_t>{1} : std::vector<int64_t>{grid.rows, grid.cols};
      list.push_back({name + ".scale", has_scale_codes(cast) ? "U8" : "F32", shape, nullptr});
      if (view.scales.tensor != nullptr)
        list.push_back({name + ".tensor_scale", "F32", {1}, nullptr});
      if (view.scales.coding == Coding::expanded)
        for (const char* ending : {".power", ".center"})
          list.push_back({name + ending, "F32", shape, nullptr});
    }
  return list;
}

}  // namespace

void put_start(const UpdateInput& input, Run& run, TensorUpdate& update) {
  for (const std::string& name : input.names_with("weight."))
    if (name != "weight.scale") input.refuse(name, "is not known", "weight.scale");
  const UpdatedWeight& weight = update.parameter().weight;
  {
    TemporaryTensor values(run.backend(), input.rows(), input.cols());
    values.upload(input.weight());
    put_weight(run, weight, values.view());
  }
  put_weight_scales(input, run.backend(), weight);
  put_states(input, run, update);
}

StateWriter::StateWriter(const std::string& path, const TensorUpdate& update,
                         const std::vector<int64_t>& steps,
                         const std::map<std::string, std::string>& metadata)
    : update_(update), writer_(path, tensors_of(update, steps), metadata) {}

std::vector<std::string> StateWriter::write(const Backend& backend, int64_t step) {
  std::vector<std::string> bad;
  for (const NamedState& state : update_.states()) {
    const View& view = state.tensor.view;
    const bool is_residual = state.name == "residual" && update_.has_residual();
    const std::vector<float> values =
        is_residual ? with_residual(backend, update_.parameter().weight) : download(backend, view);
    if (!std::all_of(values.begin(), values.end(), [](float x) { return std::isfinite(x); }))
      bad.push_back(fmt::format("step{}.{}", step, state.name));
    writer_.write(std::as_bytes(std::span(values)));
    write_stored(backend, state.tensor);
  }
  return bad;
}

void StateWriter::write_stored(const Backend& backend, const Stored& tensor) {
  const View& view = tensor.view;
  if (view.element->bits <= 16) writer_.write(code_bytes(codes_of(backend, view), *view.element));
  if (view.low != nullptr)
    writer_.write(code_bytes(codes_of(backend, low_part(view)), *view.element));
  writer_.write(scale_bytes_of(backend, tensor));
  if (view.scales.coding == Coding::expanded)
    for (const float* numbers : {view.scales.power, view.scales.center}) {
      const std::vector<float> of_blocks = block_numbers_of(backend, tensor, numbers);
      writer_.write(std::as_bytes(std::span(of_blocks)));
    }
  if (view.scales.tensor == nullptr) return;
  const float level = tensor_scale_of(backend, view);
  writer_.write(std::as_bytes(std::span(&level, 1)));
}

}  // namespace ng
