// Weights of a model folder -> parameters.
#include <algorithm>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "base/error.h"
#include "base/files.h"
#include "base/json.h"
#include "io/hf/folder.h"
#include "io/hf/names.h"
#include "io/hf/quantized_tensor.h"
#include "io/hf/weight_files.h"
#include "io/safetensors.h"

namespace ng::io {
namespace {

/// A stored tensor. `quantized`: its entry has codes, beside which scales lie.
struct Stored {
  const SafetensorsEntry* entry = nullptr;
  std::shared_ptr<const QuantizedTensor> quantized{};

  [[nodiscard]] const std::vector<int64_t>& shape() const {
    return quantized ? quantized->shape() : entry->shape;
  }
};

[[noreturn]] void refuse(const std::string& path, std::string_view tensor,
                         const std::string& problem, const std::string& remedy) {
  throw Error({path, json_text(Json(tensor)), problem, remedy});
}

/// All tensors of a folder by their names without prefix.
class StoredTensors {
 public:
  StoredTensors(const std::string& folder, Architecture architecture) {
    const HfWeightFiles files = hf_weight_files(folder);
    place_ = files.place;
    for (const std::string& path : files.paths) files_.emplace_back(path);
    for (const Safetensors& file : files_) {
      for (const SafetensorsEntry& entry : file.entries()) {
        if (is_known_buffer(entry.name, architecture)) continue;
        const std::string name(without_prefix(entry.name, architecture));
        if (!by_name_.emplace(name, Stored{&entry}).second)
          entry.refuse("is there twice", "keep one");
      }
    }
    join_codes(read_quantized_layout(folder), architecture);
  }

  /// Takes a tensor out; its entry is null where there is none.
  Stored take(std::string_view name) {
    const auto found = by_name_.find(name);
    if (found == by_name_.end()) return {};
    const Stored stored = found->second;
    by_name_.erase(found);
    return stored;
  }
  /// A tensor that nobody took.
  [[nodiscard]] Stored any_left() const {
    return by_name_.empty() ? Stored{} : by_name_.begin()->second;
  }
  [[nodiscard]] const std::string& place() const { return place_; }

 private:
  /// Makes one tensor of codes and what decodes them.
  void join_codes(const QuantizedLayout& layout, Architecture architecture) {
    const auto find = [&](const std::string& name) {
      const auto found = by_name_.find(without_prefix(name, architecture));
      return found == by_name_.end() ? nullptr : found->second.entry;
    };
    std::vector<Stored> quantized;
    for (const auto& [name, stored] : by_name_)
      if (holds_codes(*stored.entry, layout)) quantized.push_back(stored);
    for (Stored& stored : quantized) {
      stored.quantized = std::make_shared<QuantizedTensor>(*stored.entry, layout, find);
      (void)take(without_prefix(stored.entry->name, architecture));
      for (const std::string& part : stored.quantized->parts())
        (void)take(without_prefix(part, architecture));
      const std::string name(without_prefix(stored.quantized->name(), architecture));
      if (!by_name_.emplace(name, stored).second)
        refuse(stored.entry->file, stored.quantized->name(), "is there twice", "keep one");
    }
  }

  std::string place_;
  std::vector<Safetensors> files_;
  std::map<std::string, Stored, std::less<>> by_name_;
};

void check_stored(const Stored& stored, const ParameterSpec& spec) {
  const SafetensorsEntry& entry = *stored.entry;
  if (stored.shape() != hf_shape(spec))
    entry.refuse("shape " + json_text(stored.shape()),
                 fmt::format("{} by {}", json_text(hf_shape(spec)), kHfConfig));
  if (stored.quantized) return;
  for (const char* dtype : {"F32", "BF16", "F16", "F64"})
    if (entry.dtype == dtype) return;
  entry.refuse("dtype " + entry.dtype, "F32 BF16 F16 or F64");
}

/// A bias of a model without biases.
void require_zeros(const Stored& stored) {
  for (const float value : to_floats(*stored.entry)) {
    if (value == 0.0f) continue;
    stored.entry->refuse("is not zero",
                         fmt::format("{} says that the model has no such bias", kHfConfig));
  }
}

/// Of tensors of one size.
bool have_same_bytes(const SafetensorsEntry& a, const SafetensorsEntry& b) {
  constexpr size_t kPieceBytes = size_t{1} << 20;
  std::vector<std::byte> left, right;
  for (size_t at = 0; at < a.bytes; at += kPieceBytes) {
    left.resize(std::min(kPieceBytes, a.bytes - at));
    right.resize(left.size());
    a.read(at, left);
    b.read(at, right);
    if (left != right) return false;
  }
  return true;
}

/// A tied head may be stored a second time, under its own name.
void require_same_head(const Stored& head, const Stored& embedding) {
  const SafetensorsEntry& a = *head.entry;
  const SafetensorsEntry& b = *embedding.entry;
  if (a.dtype == b.dtype && a.shape == b.shape && have_same_bytes(a, b)) return;
  a.refuse(fmt::format("differs from {}", b.name),
           fmt::format("\"tie_word_embeddings\": false in {}", kHfConfig));
}

/// A tensor of the model and the stored one, if any.
struct Matched {
  HfTensor tensor;
  Stored stored;
};

struct Matches {
  std::vector<Matched> tensors;  ///< all of the model, the embedding first
  Stored tied_head;              ///< stored a second time, under its own name
};

/// Throws Error where a tensor is missing, unknown or of another shape.
Matches match(StoredTensors& stored, const ModelConfig& config) {
  Matches matches;
  for (HfTensor& tensor : hf_tensors(config)) {
    const ParameterSpec& spec = tensor.spec;
    const Stored found = stored.take(without_prefix(spec.hf_name, config.architecture));
    if (found.entry != nullptr)
      check_stored(found, spec);
    else if (tensor.parameter >= 0)
      refuse(stored.place(), spec.hf_name, "missing",
             fmt::format("a tensor of shape {}", json_text(hf_shape(spec))));
    matches.tensors.push_back({std::move(tensor), found});
  }
  if (config.tie_embeddings) matches.tied_head = stored.take("lm_head.weight");
  const Stored left = stored.any_left();
  if (left.entry != nullptr)
    left.entry->refuse("is not a tensor of this model",
                       fmt::format("does it belong to {}?", kHfConfig));
  return matches;
}

/// Rows of parameters, whatever they are stored as.
class HfWeights {
 public:
  HfWeights(const std::string& folder, const ModelConfig& config)
      : stored_(folder, config.architecture), matches_(match(stored_, config)) {
    const Stored& head = matches_.tied_head;
    if (head.entry != nullptr) require_same_head(head, matches_.tensors.front().stored);
    for (size_t i = 0; i < matches_.tensors.size(); ++i) {
      const auto& [tensor, found] = matches_.tensors[i];
      if (tensor.parameter >= 0)
        of_parameter_.push_back(i);
      else if (found.entry != nullptr)
        require_zeros(found);
    }
  }

  void read(size_t parameter, int64_t row, std::span<float> values) {
    const Matched& matched = matches_.tensors[of_parameter_.at(parameter)];
    const Stored& stored = matched.stored;
    hold(matched);
    if (matched.tensor.spec.hf_transposed) return read_transposed(matched, row, values);
    if (stored.quantized)
      stored.quantized->read(row, values);
    else
      reader_->read(row * matched.tensor.spec.cols, values);
    stored.entry->require_finite(values);
  }

 private:
  /// As long as its rows are asked for: a reader, and all values where they are stored transposed.
  void hold(const Matched& matched) {
    if (held_of_ == &matched) return;
    held_of_ = nullptr;
    if (!matched.stored.quantized) reader_.emplace(*matched.stored.entry);
    if (matched.tensor.spec.hf_transposed) {
      held_ = to_floats(*matched.stored.entry);
      matched.stored.entry->require_finite(held_);
    }
    held_of_ = &matched;
  }
  /// Stored (in, out), the parameter's rows are (out, in).
  void read_transposed(const Matched& matched, int64_t row, std::span<float> values) const {
    const auto rows = static_cast<size_t>(matched.tensor.spec.rows);
    for (size_t in = 0; in < values.size(); ++in)
      values[in] = held_[in * rows + static_cast<size_t>(row)];
  }

  StoredTensors stored_;
  Matches matches_;
  std::vector<size_t> of_parameter_;
  const Matched* held_of_ = nullptr;
  std::optional<FloatReader> reader_;
  std::vector<float> held_;
};

}  // namespace

void check_hf_weights(const std::string& folder, const ModelConfig& config) {
  StoredTensors stored(folder, config.architecture);
  (void)match(stored, config);
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
