// Weights of a model folder -> parameters.
#include <algorithm>
#include <iterator>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "base/error.h"
#include "base/files.h"
#include "base/json.h"
#include "io/hf/coded_tensors.h"
#include "io/hf/folder.h"
#include "io/hf/names.h"
#include "io/hf/scale_names.h"
#include "io/hf/weight_files.h"
#include "io/safetensors.h"

namespace ng::io {
namespace {

[[noreturn]] void refuse(const std::string& path, std::string_view tensor,
                         const std::string& problem, const std::string& remedy) {
  throw Error({path, json_text(Json(tensor)), problem, remedy});
}

/// All tensors of a folder, codes as what they stand for, by their names without prefix.
class StoredTensors {
 public:
  StoredTensors(const std::string& folder, Architecture architecture) {
    const HfWeightFiles files = hf_weight_files(folder);
    place_ = files.place;
    StoredModel model;
    model.layout = read_quantized_layout(folder);
    model.is_folder = true;
    for (const std::string& path : files.paths) {
      const Safetensors file(path);
      model.unread.merge(comfy_modules(file));
      std::ranges::copy_if(
          file.entries(), std::back_inserter(model.tensors),
          [&](const auto& entry) { return !is_known_buffer(entry.name, architecture); });
    }
    DecodedEntries decoded = decode_tensors(CodedTensors(std::move(model)));
    left_out_ = std::move(decoded.left_out);
    for (SafetensorsEntry& entry : decoded.tensors) {
      const std::string name(without_prefix(entry.name, architecture));
      if (by_name_.contains(name)) entry.refuse("is there twice", "keep one");
      by_name_.emplace(name, std::move(entry));
    }
  }

  /// Takes a tensor out; none where there is none.
  std::optional<SafetensorsEntry> take(std::string_view name) {
    const auto found = by_name_.find(name);
    if (found == by_name_.end()) return {};
    std::optional<SafetensorsEntry> stored = std::move(found->second);
    by_name_.erase(found);
    return stored;
  }
  /// Throws Error for a tensor that nobody took and that is left out neither.
  void require_all_taken() {
    for (const auto& [name, entry] : by_name_) {
      if (!is_no_weight(name))
        entry.refuse("is not a tensor of this model",
                     fmt::format("does it belong to {}?", kHfConfig));
      left_out_.push_back(entry.name);
    }
  }
  /// Scales that are no weights'.
  [[nodiscard]] const std::vector<std::string>& left_out() const { return left_out_; }
  [[nodiscard]] const std::string& place() const { return place_; }

 private:
  std::string place_;
  std::map<std::string, SafetensorsEntry, std::less<>> by_name_;
  std::vector<std::string> left_out_;
};

void check_stored(const SafetensorsEntry& entry, const ParameterSpec& spec) {
  if (entry.shape != hf_shape(spec))
    entry.refuse("shape " + json_text(entry.shape),
                 fmt::format("{} by {}", json_text(hf_shape(spec)), kHfConfig));
  if (entry.open_values) return;
  for (const char* dtype : {"F32", "BF16", "F16", "F64"})
    if (entry.dtype == dtype) return;
  entry.refuse("dtype " + entry.dtype, "F32 BF16 F16 or F64");
}

/// A bias of a model without biases.
void require_zeros(const SafetensorsEntry& entry) {
  for (const float value : to_floats(entry)) {
    if (value == 0.0f) continue;
    entry.refuse("is not zero", fmt::format("{} says that the model has no such bias", kHfConfig));
  }
}

/// A tied head may be stored a second time, under its own name.
void require_same_head(const SafetensorsEntry& head, const SafetensorsEntry& embedding) {
  if (are_same(head, embedding)) return;
  head.refuse(fmt::format("differs from {}", embedding.name),
              fmt::format("\"tie_word_embeddings\": false in {}", kHfConfig));
}

/// A tensor of the model and the stored one, if any.
struct Matched {
  HfTensor tensor;
  std::optional<SafetensorsEntry> stored;
};

struct Matches {
  std::vector<Matched> tensors;               ///< all of the model, the embedding first
  std::optional<SafetensorsEntry> tied_head;  ///< stored a second time, under its own name
};

/// Throws Error where a tensor is missing, unknown or of another shape.
Matches match(StoredTensors& stored, const ModelConfig& config) {
  Matches matches;
  for (HfTensor& tensor : hf_tensors(config)) {
    const ParameterSpec& spec = tensor.spec;
    std::optional<SafetensorsEntry> found =
        stored.take(without_prefix(spec.hf_name, config.architecture));
    if (found)
      check_stored(*found, spec);
    else if (tensor.parameter >= 0)
      refuse(stored.place(), spec.hf_name, "missing",
             fmt::format("a tensor of shape {}", json_text(hf_shape(spec))));
    matches.tensors.push_back({std::move(tensor), std::move(found)});
  }
  if (config.tie_embeddings) matches.tied_head = stored.take("lm_head.weight");
  stored.require_all_taken();
  return matches;
}

/// Rows of parameters, whatever they are stored as.
class HfWeights {
 public:
  HfWeights(const std::string& folder, const ModelConfig& config) {
    StoredTensors stored(folder, config.architecture);
    matches_ = match(stored, config);
    if (matches_.tied_head)
      require_same_head(*matches_.tied_head, *matches_.tensors.front().stored);
    for (size_t i = 0; i < matches_.tensors.size(); ++i) {
      const auto& [tensor, found] = matches_.tensors[i];
      if (tensor.parameter >= 0)
        of_parameter_.push_back(i);
      else if (found)
        require_zeros(*found);
    }
  }

  void read(size_t parameter, int64_t row, std::span<float> values) {
    const Matched& matched = matches_.tensors[of_parameter_.at(parameter)];
    hold(matched);
    if (matched.tensor.spec.hf_transposed) return read_transposed(matched, row, values);
    reader_->read(row * matched.tensor.spec.cols, values);
    matched.stored->require_finite(values);
  }

 private:
  /// As long as its rows are asked for: a reader, and all values where they are stored transposed.
  void hold(const Matched& matched) {
    if (held_of_ == &matched) return;
    held_of_ = nullptr;
    reader_.emplace(*matched.stored);
    if (matched.tensor.spec.hf_transposed) {
      held_ = to_floats(*matched.stored);
      matched.stored->require_finite(held_);
    }
    held_of_ = &matched;
  }
  /// Stored (in, out), the parameter's rows are (out, in).
  void read_transposed(const Matched& matched, int64_t row, std::span<float> values) const {
    const auto rows = static_cast<size_t>(matched.tensor.spec.rows);
    for (size_t in = 0; in < values.size(); ++in)
      values[in] = held_[in * rows + static_cast<size_t>(row)];
  }

  Matches matches_;
  std::vector<size_t> of_parameter_;
  const Matched* held_of_ = nullptr;
  std::optional<FloatReader> reader_;
  std::vector<float> held_;
};

}  // namespace

std::vector<std::string> check_hf_weights(const std::string& folder, const ModelConfig& config) {
  StoredTensors stored(folder, config.architecture);
  (void)match(stored, config);
  return left_out_note(stored.left_out());
}

ParameterReader open_hf_weights(const std::string& folder, const ModelConfig& config) {
  const auto weights = std::make_shared<HfWeights>(folder, config);
  return [weights](size_t index, int64_t row, std::span<float> values) {
    weights->read(index, row, values);
  };
}

void read_hf_weights(const std::string& folder, const ModelConfig& config,
                     const ParameterWriter& write) {
  copy_parameters(config, open_hf_weights(folder, config), write);
}

void copy_parameters(const ModelConfig& config, const ParameterReader& read,
                     const ParameterWriter& write) {
  std::vector<float> row;
  const std::vector<ParameterSpec> table = parameter_table(config);
  for (size_t index = 0; index < table.size(); ++index) {
    row.resize(static_cast<size_t>(table[index].cols));
    for (int64_t r = 0; r < table[index].rows; ++r) {
      read(index, r, row);
      write(index, r, row);
    }
  }
}

}  // namespace ng::io
