#include "model/parameter_rows.h"

#include <utility>

namespace ng {

void ParameterRows::vector(std::string name, const std::string& hf_name, int64_t size, Init init) {
  rows_.push_back({.name = std::move(name),
                   .hf_name = hf_name,
                   .rows = 1,
                   .cols = size,
                   .is_vector = true,
                   .hf_transposed = false,
                   .init = init});
}

void ParameterRows::linear(const Linear& layer) {
  rows_.push_back({.name = layers::weight_of(layer.name),
                   .hf_name = layer.hf_name + ".weight",
                   .rows = layer.out,
                   .cols = layer.in,
                   .is_vector = false,
                   .hf_transposed = hf_transposed_,
                   .init = layer.init});
  if (layer.bias)
    vector(layers::bias_of(layer.name), layer.hf_name + ".bias", layer.out, Init::zeros);
}

void ParameterRows::norm(std::string_view name, const std::string& hf_name, int64_t width,
                         bool bias) {
  vector(layers::weight_of(name), hf_name + ".weight", width, Init::ones);
  if (bias) vector(layers::bias_of(name), hf_name + ".bias", width, Init::zeros);
}

void ParameterRows::table(std::string_view name, const std::string& hf_name, int64_t rows,
                          int64_t cols) {
  rows_.push_back({.name = layers::weight_of(name),
                   .hf_name = hf_name,
                   .rows = rows,
                   .cols = cols,
                   .is_vector = false,
                   .hf_transposed = false,
                   .init = Init::normal});
}

}  // namespace ng
