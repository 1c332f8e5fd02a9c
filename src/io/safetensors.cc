#include "io/safetensors.h"

#include <algorithm>
#include <cmath>
#include <span>
#include <tuple>

#include "base/error.h"
#include "base/files.h"
#include "base/json.h"
#include "io/named_tensors.h"
#include "io/safetensors_dtype.h"

namespace ng::io {
namespace {

constexpr size_t kPrefixBytes = 8;                 // header length, u64
constexpr uint64_t kMaxHeaderBytes = 100'000'000;  // [safetensors: MAX_HEADER_SIZE]
constexpr size_t kMaxDimensions = 64;

/// A tensor's line of the header, its data given as offsets.
struct HeaderEntry {
  SafetensorsEntry entry;
  int64_t begin = 0;
  int64_t end = 0;
};

std::vector<int64_t> parse_shape(const JsonObject& object) {
  const Json& json = object.at("shape", "a list of sizes");
  if (!json.is_array() || json.size() > kMaxDimensions)
    object.refuse("shape", brief(json), fmt::format("a list of up to {} sizes", kMaxDimensions));
  std::vector<int64_t> shape;
  for (const Json& size : json) {
    const bool valid =
        size.is_number_unsigned() && size.get<uint64_t>() <= static_cast<uint64_t>(INT64_MAX);
    if (!valid) object.refuse("shape", brief(json), "sizes are integers from 0");
    shape.push_back(size.get<int64_t>());
  }
  return shape;
}

HeaderEntry parse_entry(const std::string& name, const Json& json, const std::string& path) {
  const std::string shown = brief(Json(name));
  const JsonObject object(json, path, shown + ".");
  HeaderEntry parsed;
  parsed.entry = {.name = name,
                  .dtype = object.text("dtype"),
                  .shape = parse_shape(object),
                  .bytes = 0,
                  .file = path,
                  .source = nullptr};
  const Dtype& dtype = find_dtype(parsed.entry.dtype, path, shown + ".dtype");
  const Json& offsets = object.at("data_offsets", "a list of two byte offsets");
  if (!offsets.is_array() || offsets.size() != 2 || !offsets[0].is_number_unsigned() ||
      !offsets[1].is_number_unsigned() || offsets[0] > offsets[1] ||
      offsets[1].get<uint64_t>() > static_cast<uint64_t>(INT64_MAX)) {
    object.refuse("data_offsets", brief(offsets), "two ascending byte positions [begin, end]");
  }
  parsed.begin = offsets[0].get<int64_t>();
  parsed.end = offsets[1].get<int64_t>();
  const int64_t bytes = bytes_of(dtype, parsed.entry.shape);
  if (bytes < 0)
    object.refuse(
        "shape", brief(object.at("shape")),
        fmt::format("a size in whole bytes that fits 63 bits ({} bits each)", dtype.bits));
  if (bytes != parsed.end - parsed.begin)
    object.refuse("data_offsets", brief(offsets),
                  fmt::format("{} bytes for {} {}", bytes, dtype.name, brief(object.at("shape"))));
  parsed.entry.bytes = static_cast<size_t>(bytes);
  return parsed;
}

/// The tensors must fill the data without overlap or hole. [safetensors: Metadata::validate]
void check_layout(const std::vector<HeaderEntry>& tensors, int64_t data_bytes,
                  const std::string& path) {
  int64_t next = 0;
  for (const HeaderEntry& tensor : tensors) {
    const std::string key = brief(Json(tensor.entry.name)) + ".data_offsets";
    const std::string offsets = fmt::format("[{}, {}]", tensor.begin, tensor.end);
    if (tensor.end > data_bytes)
      throw Error({.place = path,
                   .key = key,
                   .problem = offsets + " leaves the file",
                   .remedy = fmt::format("its data has {} bytes: is it truncated?", data_bytes)});
    if (tensor.begin != next)
      throw Error({.place = path,
                   .key = key,
                   .problem = offsets + (tensor.begin < next ? " overlaps another tensor"
                                                             : " leaves a hole before it"),
                   .remedy = fmt::format("begin at {}", next)});
    next = tensor.end;
  }
  if (next == data_bytes) return;
  throw Error({.place = path,
               .key = "",
               .problem = fmt::format("{} bytes behind the last tensor", data_bytes - next),
               .remedy = "the tensors must fill the file"});
}

std::string header_text(const ReadFile& file) {
  const auto fail = [&](const std::string& problem, const std::string& remedy) {
    throw Error({file.path(), "header", problem, remedy});
  };
  if (file.size() < kPrefixBytes + 2)
    fail(fmt::format("a file of {} bytes", file.size()), "is it a safetensors file?");
  uint64_t size = 0;
  file.read(0, std::as_writable_bytes(std::span(&size, 1)));
  if (size > kMaxHeaderBytes)
    fail(fmt::format("a length of {} bytes", size),
         fmt::format("at most {}: is it a safetensors file?", kMaxHeaderBytes));
  if (size > file.size() - kPrefixBytes)
    fail(fmt::format("a length of {} bytes in a file of {}", size, file.size()),
         "is it truncated?");
  std::string text(size, '\0');
  file.read(kPrefixBytes, std::as_writable_bytes(std::span(text)));
  if (text.empty() || text.front() != '{')
    fail("does not begin with \"{\"", "is it a safetensors file?");
  return text;
}

std::map<std::string, std::string> parse_metadata(const Json& json, const std::string& path) {
  const JsonObject object(json, path, "__metadata__.");
  std::map<std::string, std::string> metadata;
  for (const auto& [key, value] : json.items()) {
    if (!value.is_string()) object.refuse(key, brief(value), "a string");
    metadata[key] = value.get<std::string>();
  }
  return metadata;
}

}  // namespace

void SafetensorsEntry::refuse(const std::string& problem, const std::string& remedy) const {
  throw Error({file, json_text(Json(name)), problem, remedy});
}

void SafetensorsEntry::require_finite(std::span<const float> values) const {
  for (const float value : values)
    if (!std::isfinite(value)) refuse(fmt::format("holds {}", value), "finite weights");
}

int64_t SafetensorsEntry::elements() const {
  int64_t count = 1;
  for (const int64_t size : shape)
    if (size == 0) return 0;
  for (const int64_t size : shape) count *= size;
  return count;
}

void SafetensorsEntry::read(size_t offset, std::span<std::byte> out) const {
  NG_CHECK(source != nullptr && offset + out.size() <= bytes, name, offset, out.size());
  source->read(begin + offset, out);
}

struct Safetensors::Contents {
  std::string path;
  std::vector<SafetensorsEntry> entries;
  std::map<std::string, size_t, std::less<>> by_name;
  std::map<std::string, std::string> metadata;
};

Safetensors::Safetensors(const std::string& path) : contents_(std::make_unique<Contents>()) {
  const auto file = std::make_shared<const ReadFile>(path);
  contents_->path = path;
  const std::string text = header_text(*file);
  const Json header = parse_json(text, path, 4);
  std::vector<HeaderEntry> tensors;
  for (const auto& [name, json] : header.items()) {
    if (name == "__metadata__") {
      contents_->metadata = parse_metadata(json, path);
    } else {
      tensors.push_back(parse_entry(name, json, path));
    }
  }
  std::sort(tensors.begin(), tensors.end(), [](const HeaderEntry& a, const HeaderEntry& b) {
    return std::tie(a.begin, a.end, a.entry.name) < std::tie(b.begin, b.end, b.entry.name);
  });
  const size_t data_start = kPrefixBytes + text.size();
  check_layout(tensors, static_cast<int64_t>(file->size() - data_start), path);
  for (HeaderEntry& tensor : tensors) {
    tensor.entry.source = file;
    tensor.entry.begin = data_start + static_cast<uint64_t>(tensor.begin);
    contents_->by_name.emplace(tensor.entry.name, contents_->entries.size());
    contents_->entries.push_back(std::move(tensor.entry));
  }
}

Safetensors::Safetensors(Safetensors&&) noexcept = default;
Safetensors& Safetensors::operator=(Safetensors&&) noexcept = default;
Safetensors::~Safetensors() = default;

const std::string& Safetensors::path() const { return contents_->path; }
const std::vector<SafetensorsEntry>& Safetensors::entries() const { return contents_->entries; }
const std::map<std::string, std::string>& Safetensors::metadata() const {
  return contents_->metadata;
}

void Safetensors::replace(size_t index, SafetensorsEntry entry) {
  NG_CHECK(entry.name == contents_->entries.at(index).name, index, entry.name);
  contents_->entries[index] = std::move(entry);
}

bool has_metadata(const std::string& path, const std::string& key) {
  try {
    return Safetensors(path).metadata().contains(key);
  } catch (const Error&) {
    return false;
  }
}

const SafetensorsEntry* Safetensors::find(std::string_view name) const {
  const auto found = contents_->by_name.find(name);
  return found == contents_->by_name.end() ? nullptr : &contents_->entries[found->second];
}

const SafetensorsEntry& Safetensors::at(std::string_view name) const {
  const SafetensorsEntry* entry = find(name);
  if (entry != nullptr) return *entry;
  refuse_unknown_tensor(path(), name, entries());
}

}  // namespace ng::io
