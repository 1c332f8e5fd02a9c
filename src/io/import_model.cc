#include "io/import_model.h"

#include "base/error.h"
#include "base/files.h"
#include "io/decoded_tensors.h"
#include "io/hf/export.h"
#include "io/safetensors.h"

namespace ng {
namespace {

const std::string kImportedKey = "imported_from";

}  // namespace

std::vector<std::string> import_model(const std::string& in, const std::string& out) {
  return export_hf(
      {.model = in, .out = out, .type = "f32", .block = {}, .trained = {}, .threads = {}});
}

void import_tensors(const std::string& in, const std::string& out) {
  const std::vector<io::DecodedTensor> tensors = io::decoded_tensors(in);
  std::vector<io::SafetensorsTensor> header;
  for (const io::DecodedTensor& tensor : tensors)
    header.push_back({tensor.name, "F32", tensor.shape, nullptr});
  io::SafetensorsWriter writer(
      out, header, {{"format", "pt"}, {kImportedKey, is_folder(in) ? "folder" : "gguf"}});
  for (const io::DecodedTensor& tensor : tensors)
    tensor.read([&](std::span<const float> values) { writer.write(std::as_bytes(values)); });
  writer.commit();
}

bool is_import(const std::string& path) { return io::has_metadata(path, kImportedKey); }

}  // namespace ng
