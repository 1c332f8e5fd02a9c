#include "interop/import_model.h"

#include <algorithm>

#include "base/error.h"
#include "interop/export_hf.h"
#include "io/gguf.h"

namespace ng {
namespace {

const std::string kImportedKey = "imported_from";

}  // namespace

std::vector<std::string> import_model(const std::string& in, const std::string& out) {
  return export_hf(
      {.model = in, .out = out, .type = "f32", .block = {}, .trained = {}, .threads = {}});
}

void import_tensors(const std::string& in, const std::string& out) {
  constexpr int64_t kPieceValues = int64_t{1} << 20;
  const io::Gguf file(in);
  std::vector<io::SafetensorsTensor> header;
  for (const io::SafetensorsEntry& entry : file.entries())
    header.push_back({entry.name, "F32", entry.shape, nullptr});
  io::SafetensorsWriter writer(out, header, {{"format", "pt"}, {kImportedKey, "gguf"}});
  std::vector<float> values;
  for (const io::SafetensorsEntry& entry : file.entries()) {
    const io::FloatReader reader(entry);
    for (int64_t at = 0; at < entry.elements(); at += kPieceValues) {
      values.resize(static_cast<size_t>(std::min(kPieceValues, entry.elements() - at)));
      reader.read(at, values);
      writer.write(std::as_bytes(std::span(values)));
    }
  }
  writer.commit();
}

bool is_import(const std::string& path) {
  try {
    return io::Safetensors(path).metadata().contains(kImportedKey);
  } catch (const Error&) {
    return false;
  }
}

}  // namespace ng
