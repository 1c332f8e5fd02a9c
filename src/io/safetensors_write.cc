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

std::string quoted(const std::string& text) { return json_text(text); }

uint64_t stored_bytes(const SafetensorsTensor& tensor) {
  NG_CHECK(std::none_of(tensor.shape.begin(), tensor.shape.end(), [](int64_t n) { return n < 0; }),
           tensor.name);
  const int64_t bytes = bytes_of(find_dtype(tensor.dtype, "", tensor.name), tensor.shape);
  NG_CHECK(bytes >= 0, tensor.name, tensor.dtype);
  return static_cast<uint64_t>(bytes);
}

uint64_t stored_bytes(const std::vector<SafetensorsTensor>& tensors) {
  uint64_t bytes = 0;
  for (const SafetensorsTensor& tensor : tensors) bytes += stored_bytes(tensor);
  return bytes;
}

/// Header length, header, padded with spaces so that the data begins at a multiple of 8.
std::string header_of(const std::vector<SafetensorsTensor>& tensors,
                      const std::map<std::string, std::string>& metadata) {
  std::string text = "{";
  if (!metadata.empty()) text += "\"__metadata__\":" + json_text(metadata);
  std::set<std::string> names;
  uint64_t offset = 0;
  for (const SafetensorsTensor& tensor : tensors) {
    NG_CHECK(names.insert(tensor.name).second && tensor.name != "__metadata__", tensor.name);
    const uint64_t bytes = stored_bytes(tensor);
    text += fmt::format("{}{}:{{\"dtype\":\"{}\",\"shape\":{},\"data_offsets\":[{},{}]}}",
                        text.size() > 1 ? "," : "", quoted(tensor.name), tensor.dtype,
                        json_text(tensor.shape), offset, offset + bytes);
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

SafetensorsWriter::SafetensorsWriter(const std::string& path,
                                     const std::vector<SafetensorsTensor>& tensors,
                                     const std::map<std::string, std::string>& metadata)
    : file_(path), bytes_left_(stored_bytes(tensors)) {
  const std::string header = header_of(tensors, metadata);
  begins_.push_back(header.size());
  for (const SafetensorsTensor& tensor : tensors)
    begins_.push_back(begins_.back() + stored_bytes(tensor));
  file_.write(header);
}

void SafetensorsWriter::write_at(size_t index, uint64_t offset, std::span<const std::byte> bytes) {
  NG_CHECK(index + 1 < begins_.size() && bytes.size() <= bytes_left_, index, bytes.size());
  const uint64_t begin = begins_[index] + offset;
  NG_CHECK(begin + bytes.size() <= begins_[index + 1], index, offset, bytes.size());
  file_.write_at(begin, bytes.data(), bytes.size());
  bytes_left_ -= bytes.size();
}

void SafetensorsWriter::write(std::span<const std::byte> bytes) {
  NG_CHECK(bytes.size() <= bytes_left_, bytes.size(), bytes_left_);
  file_.write(bytes.data(), bytes.size());
  bytes_left_ -= bytes.size();
}

void SafetensorsWriter::commit() {
  NG_CHECK(bytes_left_ == 0, bytes_left_);
  file_.commit();
}

void write_safetensors(const std::string& path, const std::vector<SafetensorsTensor>& tensors,
                       const std::map<std::string, std::string>& metadata) {
  SafetensorsWriter writer(path, tensors, metadata);
  for (const SafetensorsTensor& tensor : tensors)
    writer.write({static_cast<const std::byte*>(tensor.data), stored_bytes(tensor)});
  writer.commit();
}

}  // namespace ng::io
