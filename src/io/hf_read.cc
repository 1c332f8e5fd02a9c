// Weights of a model folder -> parameters.
#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <vector>

#include "base/error.h"
#include "base/files.h"
#include "base/json.h"
#include "io/hf_folder.h"
#include "io/hf_names.h"
#include "io/safetensors.h"

namespace ng::io {
namespace {

constexpr size_t kMaxIndexBytes = 64 << 20;

/// A stored tensor and the file it is in.
struct Stored {
  const SafetensorsEntry* entry = nullptr;
  const std::string* path = nullptr;
};

[[noreturn]] void refuse(const std::string& path, std::string_view tensor,
                         const std::string& problem, const std::string& remedy) {
  throw Error({.place = path, .key = brief(Json(tensor)), .problem = problem, .remedy = remedy});
}

/// The files named by an index, each once.
std::vector<std::string> shard_paths(const std::string& folder) {
  const std::string path = join_path(folder, kHfIndex);
  const Json json = read_json_file(path, kMaxIndexBytes);
  const JsonObject map = JsonObject(json, path).object("weight_map");
  std::set<std::string> names;
  for (const auto& [tensor, file] : map.value().items()) {
    const std::string name = map.text(tensor);
    if (name.empty() || name.find('/') != std::string::npos) {
      map.refuse(tensor, brief(file), "the name of a file in the same folder");
    }
    names.insert(name);
  }
  std::vector<std::string> paths;
  for (const std::string& name : names) {
    paths.push_back(join_path(folder, name));
    if (is_file(paths.back())) continue;
    throw Error({.place = paths.back(),
                 .key = "",
                 .problem = "missing",
                 .remedy = fmt::format("{} names it", kHfIndex)});
  }
  return paths;
}

/// All tensors of a folder by their names without prefix.
class StoredTensors {
 public:
  StoredTensors(const std::string& folder, Architecture architecture) {
    const std::string single = join_path(folder, kHfWeights);
    const bool sharded = !is_file(single) && is_file(join_path(folder, kHfIndex));
    place_ = sharded ? join_path(folder, kHfIndex) : single;
    const std::vector<std::string> paths =
        sharded ? shard_paths(folder) : std::vector<std::string>{single};
    for (const std::string& path : paths) files_.emplace_back(path);
    for (const Safetensors& file : files_) {
      for (const SafetensorsEntry& entry : file.entries()) {
        if (is_known_buffer(entry.name, architecture)) continue;
        const std::string name(without_prefix(entry.name, architecture));
        const bool first = by_name_.emplace(name, Stored{&entry, &file.path()}).second;
        if (!first) refuse(file.path(), entry.name, "is there twice", "keep one");
      }
    }
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
  std::string place_;
  std::vector<Safetensors> files_;
  std::map<std::string, Stored, std::less<>> by_name_;
};

void check_stored(const Stored& stored, const ParameterSpec& spec) {
  const SafetensorsEntry& entry = *stored.entry;
  if (entry.shape != hf_shape(spec)) {
    refuse(*stored.path, entry.name, "shape " + json_text(entry.shape),
           fmt::format("{} by {}", json_text(hf_shape(spec)), kHfConfig));
  }
  for (const char* dtype : {"F32", "BF16", "F16", "F64"}) {
    if (entry.dtype == dtype) return;
  }
  refuse(*stored.path, entry.name, "dtype " + entry.dtype, "F32 BF16 F16 or F64");
}

void require_finite(const Stored& stored, std::span<const float> values) {
  for (const float value : values)
    if (!std::isfinite(value))
      refuse(*stored.path, stored.entry->name, fmt::format("holds {}", value), "finite weights");
}

/// Stored (in, out), the parameter's rows are (out, in).
void read_transposed(const Stored& stored, const ParameterSpec& spec, size_t index,
                     const ParameterWriter& write) {
  const std::vector<float> values = to_floats(*stored.entry);
  require_finite(stored, values);
  std::vector<float> row(static_cast<size_t>(spec.cols));
  for (int64_t out = 0; out < spec.rows; ++out) {
    for (int64_t in = 0; in < spec.cols; ++in)
      row[static_cast<size_t>(in)] = values[static_cast<size_t>(in * spec.rows + out)];
    write(index, out, row);
  }
}

void read_tensor(const Stored& stored, const ParameterSpec& spec, size_t index,
                 const ParameterWriter& write) {
  if (spec.hf_transposed) return read_transposed(stored, spec, index, write);
  const FloatReader reader(*stored.entry);
  std::vector<float> row(static_cast<size_t>(spec.cols));
  for (int64_t r = 0; r < spec.rows; ++r) {
    reader.read(r * spec.cols, row);
    require_finite(stored, row);
    write(index, r, row);
  }
}

/// A bias of a model without biases.
void require_zeros(const Stored& stored) {
  for (const float value : to_floats(*stored.entry)) {
    if (value == 0.0f) continue;
    refuse(*stored.path, stored.entry->name, "is not zero",
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
  refuse(*head.path, a.name, fmt::format("differs from {}", b.name),
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
    refuse(*left.path, left.entry->name, "is not a tensor of this model",
           fmt::format("does it belong to {}?", kHfConfig));
  return matches;
}

}  // namespace

void check_hf_weights(const std::string& folder, const ModelConfig& config) {
  StoredTensors stored(folder, config.architecture);
  (void)match(stored, config);
}

void read_hf_weights(const std::string& folder, const ModelConfig& config,
                     const ParameterWriter& write) {
  StoredTensors stored(folder, config.architecture);
  const Matches matches = match(stored, config);
  const Stored& head = matches.tied_head;
  if (head.entry != nullptr) require_same_head(head, matches.tensors.front().stored);
  for (const auto& [tensor, found] : matches.tensors) {
    if (found.entry == nullptr) continue;
    if (tensor.parameter < 0) {
      require_zeros(found);
      continue;
    }
    read_tensor(found, tensor.spec, static_cast<size_t>(tensor.parameter), write);
  }
}

}  // namespace ng::io
