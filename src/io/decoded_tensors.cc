#include "io/decoded_tensors.h"

#include <algorithm>
#include <map>
#include <memory>
#include <numeric>
#include <set>

#include "base/error.h"
#include "base/files.h"
#include "io/gguf/gguf.h"
#include "io/hf/expert_tensor.h"
#include "io/hf/quantized_tensor.h"
#include "io/hf/weight_files.h"

namespace ng::io {
namespace {

DecodedTensor stored(SafetensorsEntry entry) {
  const auto kept = std::make_shared<const SafetensorsEntry>(std::move(entry));
  const auto read = [kept](const TakeValues& take) {
    constexpr int64_t kPieceValues = int64_t{1} << 20;
    const FloatReader reader(*kept);
    std::vector<float> values;
    for (int64_t at = 0; at < kept->elements(); at += kPieceValues) {
      values.resize(static_cast<size_t>(std::min(kPieceValues, kept->elements() - at)));
      reader.read(at, values);
      take(values);
    }
  };
  return {.name = kept->name, .shape = kept->shape, .read = read};
}

/// All tensors of a folder.
class Folder {
 public:
  explicit Folder(const std::string& folder) : layout_(read_quantized_layout(folder)) {
    const HfWeightFiles files = hf_weight_files(folder);
    for (const std::string& path : files.paths) {
      const Safetensors file(path);
      for (const SafetensorsEntry& entry : file.entries()) {
        const auto kept = std::make_shared<const SafetensorsEntry>(entry);
        if (!by_name_.emplace(entry.name, kept).second) entry.refuse("is there twice", "one of it");
        entries_.push_back(kept);
      }
    }
  }

  [[nodiscard]] std::vector<DecodedTensor> decoded() {
    std::map<std::string, DecodedTensor> of_codes;  // by the name of the codes
    std::set<std::string> parts;
    for (const auto& entry : entries_) {
      const bool experts = layout_.kind == WeightLayout::experts && holds_expert_codes(*entry);
      if (!experts && !holds_codes(*entry, layout_)) continue;
      of_codes.emplace(entry->name, experts ? of_experts(*entry, parts) : of_rows(*entry, parts));
    }
    std::vector<DecodedTensor> tensors;
    for (const auto& entry : entries_) {
      if (parts.contains(entry->name)) continue;
      if (const auto found = of_codes.find(entry->name); found != of_codes.end())
        tensors.push_back(found->second);
      else
        tensors.push_back(stored(*entry));
      if (tensors.back().name != entry->name && by_name_.contains(tensors.back().name))
        entry->refuse("stands for " + tensors.back().name + ", which is there too", "one of them");
    }
    return tensors;
  }

 private:
  using Entries = std::map<std::string, std::shared_ptr<const SafetensorsEntry>, std::less<>>;

  [[nodiscard]] FindEntry find() const {
    return [this](const std::string& name) {
      const auto found = by_name_.find(name);
      return found == by_name_.end() ? nullptr : found->second.get();
    };
  }

  [[nodiscard]] DecodedTensor of_rows(const SafetensorsEntry& codes, std::set<std::string>& parts) {
    const auto tensor = std::make_shared<const QuantizedTensor>(codes, layout_, find());
    parts.insert(tensor->parts().begin(), tensor->parts().end());
    return piece_by_piece(tensor);
  }

  [[nodiscard]] DecodedTensor of_experts(const SafetensorsEntry& blocks,
                                         std::set<std::string>& parts) {
    const auto tensor = std::make_shared<const ExpertTensor>(blocks, find());
    parts.insert(tensor->scales());
    return piece_by_piece(tensor);
  }

  /// By its first dimension.
  template <class Tensor>
  [[nodiscard]] DecodedTensor piece_by_piece(const std::shared_ptr<const Tensor>& tensor) const {
    const auto read = [tensor, all = entries_](const TakeValues& take) {
      const std::vector<int64_t> shape = tensor->shape();
      if (shape[0] == 0) return;
      std::vector<float> values(static_cast<size_t>(
          std::accumulate(shape.begin() + 1, shape.end(), int64_t{1}, std::multiplies<>())));
      for (int64_t piece = 0; piece < shape[0]; ++piece) {
        tensor->read(piece, values);
        take(values);
      }
    };
    return {.name = tensor->name(), .shape = tensor->shape(), .read = read};
  }

  QuantizedLayout layout_;
  std::vector<std::shared_ptr<const SafetensorsEntry>> entries_;  ///< in the order of the files
  Entries by_name_;
};

}  // namespace

std::vector<DecodedTensor> decoded_tensors(const std::string& in) {
  if (is_folder(in)) return Folder(in).decoded();
  std::vector<DecodedTensor> tensors;
  const Gguf file(in);
  for (const SafetensorsEntry& entry : file.entries()) tensors.push_back(stored(entry));
  return tensors;
}

}  // namespace ng::io
