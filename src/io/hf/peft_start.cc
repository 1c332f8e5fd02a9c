#include "io/hf/peft_start.h"

#include <algorithm>

#include "base/error.h"
#include "io/hf/names.h"
#include "model/adapters.h"
#include "recipe/layer_names.h"

namespace ng::io {
namespace {

/// Rows of a matrix or a vector, in its own orientation.
void write_rows_of(const SafetensorsEntry& entry, const ParameterSpec& spec, size_t index,
                   const ParameterWriter& write) {
  const std::vector<float> values = to_floats(entry);
  entry.require_finite(values);
  const auto rows = static_cast<size_t>(spec.rows), cols = static_cast<size_t>(spec.cols);
  std::vector<float> row(cols);
  for (size_t r = 0; r < rows; ++r) {
    for (size_t c = 0; c < cols; ++c)
      row[c] = values[spec.hf_transposed ? c * rows + r : r * cols + c];
    write(index, static_cast<int64_t>(r), row);
  }
}

}  // namespace

PeftStart::PeftStart(const std::string& folder, const ModelConfig& base)
    : peft_(read_peft_config(folder)), tensors_(folder, base), config_(base) {
  const auto refuse = [&](const char* key, const std::string& problem) {
    throw Error({.place = peft_.place,
                 .key = key,
                 .problem = problem + " is not trained here",
                 .remedy = "narrowgauge import, and model.init of what it makes"});
  };
  if (peft_.is_decomposed) refuse("use_dora", "true: DoRA");
  if (peft_.has_biases) refuse("lora_bias", "true: a bias of B");
  if (tensors_.config() != base)
    refuse("modules_to_save", "an embedding of another size, or untied from the head,");
  lora_ = {.rank = peft_.rank,
           .alpha = peft_.alpha,
           .targets = {},
           .is_rank_stabilized = peft_.divides_by_root};
  const std::vector<ParameterSpec> table = parameter_table(base);
  for (size_t index = 0; index < table.size(); ++index)
    if (const PeftChange* change = tensors_.change_of(index)) take(*change, table[index]);
  if (lora_.targets.empty()) refuse("target_modules", "no linear layer of a block");
}

void PeftStart::take(const PeftChange& change, const ParameterSpec& spec) {
  const std::string layer(layers::layer_of(spec.name));
  if (change.whole != nullptr) {
    if (change.a != nullptr)
      change.a->refuse("stands beside a layer that is saved whole", "one of the two");
    if (spec.name == layers::weight_of(layer)) lora_.modules.push_back(layer);
    if (!lora_.trains(layer))
      change.whole->refuse("is a bias alone", "biases of modules_to_save: bias = \"none\"");
    return;
  }
  if (change.is_table || layers::place_of(layer).block < 0)
    change.a->refuse("is of the embedding or the head",
                     "adapters of linear layers of blocks alone, where they are trained");
  lora_.targets.push_back(layer);
  if (change.rank != lora_.rank) lora_.rank_pattern[layer] = change.rank;
  if (change.alpha != lora_.alpha) lora_.alpha_pattern[layer] = change.alpha;
}

void PeftStart::read(const ParameterWriter& write) const {
  const std::vector<ParameterSpec> table = parameter_table(config_);
  ModelConfig adapted = config_;
  adapted.lora = lora_;
  size_t next = table.size();
  for (size_t index = 0; index < table.size(); ++index) {
    const PeftChange* change = tensors_.change_of(index);
    if (change == nullptr) continue;
    if (change->whole != nullptr) write_rows_of(*change->whole, table[index], index, write);
    const std::vector<ParameterSpec> halves =
        adapter_parameters(adapted, std::span(table).subspan(index, 1));
    for (const ParameterSpec& half : halves)
      write_rows_of(&half == &halves.front() ? *change->a : *change->b, half, next++, write);
  }
}

}  // namespace ng::io
