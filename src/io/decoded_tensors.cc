#include "io/decoded_tensors.h"

#include <algorithm>
#include <memory>

#include "base/files.h"
#include "io/gguf/gguf.h"
#include "io/hf/coded_file.h"
#include "io/hf/coded_tensors.h"
#include "io/hf/weight_files.h"

namespace ng::io {
namespace {

DecodedTensor stored(const SafetensorsEntry& entry) {
  const auto kept = std::make_shared<const SafetensorsEntry>(entry);
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

DecodedModel decoded(const CodedTensors& tensors) {
  const DecodedEntries entries = decode_tensors(tensors);
  DecodedModel model{.tensors = {}, .notes = left_out_note(entries.left_out)};
  for (const SafetensorsEntry& entry : entries.tensors) model.tensors.push_back(stored(entry));
  return model;
}

DecodedModel decoded_folder(const std::string& folder) {
  StoredModel model;
  model.layout = read_quantized_layout(folder);
  model.is_folder = true;
  for (const std::string& path : hf_weight_files(folder).paths) {
    const Safetensors file(path);
    model.tensors.insert(model.tensors.end(), file.entries().begin(), file.entries().end());
    model.unread.merge(comfy_modules(file));
  }
  return decoded(CodedTensors(std::move(model)));
}

}  // namespace

DecodedModel decoded_tensors(const std::string& in) {
  if (is_folder(in)) return decoded_folder(in);
  if (!is_gguf(in) && in.ends_with(".safetensors"))
    return decoded(CodedTensors(stored_model_of(Safetensors(in))));
  DecodedModel model;
  const Gguf file(in);
  for (const SafetensorsEntry& entry : file.entries()) model.tensors.push_back(stored(entry));
  return model;
}

}  // namespace ng::io
