#include <algorithm>
#include <cstring>
#include <set>

#include "base/error.h"
#include "base/files.h"
#include "base/json.h"
#include "io/safetensors.h"
#include "io/safetensors_dtype.h"

namespace ng::io {
namespace {

std::string quoted(const std::string& text) { return Json(text).dump(); }

/// Header length, header, padded with spaces so that the data begins at a multiple of 8.
std::string header_of(const std::vector<SafetensorsTensor>& tensors,
                      const std::map<std::string, std::string>& metadata) {
  std::string text = "{";
  if (!metadata.empty()) text += "\"__metadata__\":" + Json(metadata).dump();
  int64_t offset = 0;
  for (const SafetensorsTensor& tensor : tensors) {
    const int64_t bytes = bytes_of(find_dtype(tensor.dtype, "", tensor.name), tensor.shape);
    NG_CHECK(bytes >= 0, tensor.name, tensor.dtype);
    text += fmt::format("{}{}:{{\"dtype\":\"{}\",\"shape\":{},\"data_offsets\":[{},{}]}}",
                        text.size() > 1 ? "," : "", quoted(tensor.name), tensor.dtype,
                        Json(tensor.shape).dump(), offset, offset + bytes);
    offset += bytes;
  }
  text += "}";
  text.append((8 - text.size() % 8) % 8, ' ');
  const uint64_t size = text.size();
  std::string prefix(sizeof size, '\0');
  std::memcpy(prefix.data(), &size, sizeof size);
  return prefix + text;
}

}  // namespace

void write_safetensors(const std::string& path, const std::vector<SafetensorsTensor>& tensors,
                       const std::map<std::string, std::string>& metadata) {
  std::set<std::string> names;
  for (const SafetensorsTensor& tensor : tensors) {
    NG_CHECK(names.insert(tensor.name).second && tensor.name != "__metadata__", tensor.name);
    NG_CHECK(
        std::none_of(tensor.shape.begin(), tensor.shape.end(), [](int64_t n) { return n < 0; }),
        tensor.name);
  }
  FileWriter file(path);
  file.write(header_of(tensors, metadata));
  for (const SafetensorsTensor& tensor : tensors) {
    const int64_t bytes = bytes_of(find_dtype(tensor.dtype, path, tensor.name), tensor.shape);
    file.write(tensor.data, static_cast<size_t>(bytes));
  }
  file.commit();
}

}  // namespace ng::io
