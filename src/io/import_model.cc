#include "io/import_model.h"

#include "base/error.h"
#include "base/files.h"
#include "io/decoded_tensors.h"
#include "io/gguf/gguf.h"
#include "io/hf/export.h"
#include "io/safetensors.h"

namespace ng {
namespace {

const std::string kImportedKey = "imported_from";

std::string kind_of(const std::string& in) {
  if (is_folder(in)) return "folder";
  return io::is_gguf(in) ? "gguf" : "safetensors";
}

}  // namespace

std::vector<std::string> import_model(const io::ModelName& in, const std::string& out) {
  return export_hf(
      {.model = in, .out = out, .type = "f32", .block = {}, .trained = {}, .threads = {}});
}

std::vector<std::string> import_tensors(const std::string& in, const std::string& out) {
  const io::DecodedModel model = io::decoded_tensors(in);
  std::vector<io::SafetensorsTensor> header;
  for (const io::DecodedTensor& tensor : model.tensors)
    header.push_back({tensor.name, "F32", tensor.shape, nullptr});
  io::SafetensorsWriter writer(out, header, {{"format", "pt"}, {kImportedKey, kind_of(in)}});
  for (const io::DecodedTensor& tensor : model.tensors)
    tensor.read([&](std::span<const float> values) { writer.write(std::as_bytes(values)); });
  writer.commit();
  return model.notes;
}

bool is_import(const std::string& path) { return io::has_metadata(path, kImportedKey); }

}  // namespace ng
