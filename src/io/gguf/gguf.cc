#include "io/gguf/gguf.h"

#include <algorithm>
#include <cstring>
#include <set>

#include "base/error.h"
#include "base/json.h"

namespace ng::io {
namespace {

constexpr std::string_view kMagic = "GGUF";
constexpr uint32_t kDefaultAlignment = 32;
constexpr std::string_view kAlignmentKey = "general.alignment";

std::string name_text(std::string_view name) { return json_text(Json(name)); }

[[noreturn]] void fail(const std::string& path, const std::string& key, const std::string& problem,
                       const std::string& remedy) {
  throw Error({path, key, problem, remedy});
}

/// Reads a header from its beginning on; every length is checked against what is left of the file.
class Cursor {
 public:
  explicit Cursor(const ReadFile& file) : file_(file) {}

  [[nodiscard]] uint64_t at() const { return at_; }
  [[nodiscard]] uint64_t left() const { return file_.size() - at_; }
  [[nodiscard]] const std::string& path() const { return file_.path(); }

  std::string take(uint64_t bytes, const std::string& what) {
    if (bytes > left())
      fail(path(), what, fmt::format("{} bytes where the file has {} left", bytes, left()),
           "is it truncated?");
    std::string text(bytes, '\0');
    if (bytes > kPiece) {
      file_.read(at_, std::as_writable_bytes(std::span(text)));
    } else if (bytes > 0) {
      hold(bytes);
      std::memcpy(text.data(), piece_.data() + (at_ - piece_at_), bytes);
    }
    at_ += bytes;
    return text;
  }
  template <class Value>
  Value take_number(const std::string& what) {
    Value value{};
    const std::string bytes = take(sizeof value, what);
    std::memcpy(&value, bytes.data(), sizeof value);
    return value;
  }
  std::string take_text(const std::string& what) { return take(take_number<uint64_t>(what), what); }

 private:
  static constexpr uint64_t kPiece = 1 << 16;

  /// Makes the piece hold `bytes` from here on, which the file has.
  void hold(uint64_t bytes) {
    const bool is_held = at_ >= piece_at_ && at_ - piece_at_ + bytes <= piece_.size();
    if (is_held) return;
    piece_.resize(std::min(kPiece, left()));
    file_.read(at_, std::as_writable_bytes(std::span(piece_)));
    piece_at_ = at_;
  }

  const ReadFile& file_;
  uint64_t at_ = 0, piece_at_ = 0;
  std::string piece_;
};

GgufType type_of(uint32_t id, const std::string& path, const std::string& key) {
  if (id > static_cast<uint32_t>(GgufType::f64))
    fail(path, key, fmt::format("a value of type {}", id), "types from 0 to 12: is it damaged?");
  return static_cast<GgufType>(id);
}

GgufValue take_array(Cursor& cursor, const std::string& key) {
  GgufValue value{.type = GgufType::array, .bytes = {}, .texts = {}};
  value.element = type_of(cursor.take_number<uint32_t>(key), cursor.path(), key);
  if (value.element == GgufType::array)
    fail(cursor.path(), key, "an array of arrays", "an array of numbers or texts");
  const auto count = cursor.take_number<uint64_t>(key);
  const size_t each = number_bytes(value.element);
  const size_t least = each > 0 ? each : sizeof(uint64_t);  // a text has its length at least
  if (count > cursor.left() / least)
    fail(cursor.path(), key,
         fmt::format("{} elements where the file has {} bytes left", count, cursor.left()),
         "is it truncated?");
  if (each > 0) {
    value.bytes = cursor.take(count * each, key);
    return value;
  }
  for (uint64_t i = 0; i < count; ++i) value.texts.push_back(cursor.take_text(key));
  return value;
}

GgufValue take_value(Cursor& cursor, const std::string& key) {
  const GgufType type = type_of(cursor.take_number<uint32_t>(key), cursor.path(), key);
  if (type == GgufType::array) return take_array(cursor, key);
  GgufValue value{.type = type, .bytes = {}, .texts = {}};
  value.bytes =
      type == GgufType::text ? cursor.take_text(key) : cursor.take(number_bytes(type), key);
  return value;
}

GgufKeys take_keys(Cursor& cursor, uint64_t count) {
  GgufKeys keys;
  std::set<std::string> names;
  for (uint64_t i = 0; i < count; ++i) {
    std::string key = cursor.take_text(fmt::format("key {}", i));
    const std::string shown = brief(Json(key));  // of any length
    if (!names.insert(key).second) fail(cursor.path(), shown, "is there twice", "each key once");
    GgufValue value = take_value(cursor, shown);
    keys.emplace_back(std::move(key), std::move(value));
  }
  return keys;
}

const GgufTensorType& tensor_type(uint32_t id, const std::string& path, const std::string& name) {
  std::string known;
  for (const GgufTensorType& type : gguf_tensor_types()) {
    if (type.id == id) return type;
    known += fmt::format("{}{} ({})", known.empty() ? "" : " ", type.name, type.id);
  }
  fail(path, name, fmt::format("type {} is not supported", id), known);
}

/// Bytes of a tensor of this shape.
int64_t bytes_of(const GgufTensorType& type, const std::vector<int64_t>& shape,
                 const std::string& path, const std::string& name) {
  int64_t values = 1, bytes = 0;
  bool overflows = false;
  for (const int64_t size : shape) overflows |= __builtin_mul_overflow(values, size, &values);
  if (overflows || __builtin_mul_overflow(values, type.bytes, &bytes))
    fail(path, name, "shape " + json_text(shape), "sizes whose bytes fit 63 bits");
  const int64_t row = shape.empty() ? 1 : shape.back();
  if (row % type.block != 0)
    fail(path, name, fmt::format("rows of {} values in {}", row, type.name),
         fmt::format("whole blocks of {}", type.block));
  return values / type.block * type.bytes;
}

struct TensorInfo {
  SafetensorsEntry entry;
  uint64_t offset = 0;  ///< from the start of the data
};

TensorInfo take_info(Cursor& cursor, uint64_t index) {
  TensorInfo info;
  const uint64_t length = cursor.take_number<uint64_t>(fmt::format("tensor {}", index));
  if (length > kMaxGgufName)
    fail(cursor.path(), fmt::format("tensor {}", index), fmt::format("a name of {} bytes", length),
         "at most 63");
  info.entry.name = cursor.take(length, fmt::format("tensor {}", index));
  info.entry.file = cursor.path();
  const std::string shown = name_text(info.entry.name);
  const auto dimensions = cursor.take_number<uint32_t>(shown);
  if (dimensions > kMaxGgufDimensions)
    fail(cursor.path(), shown, fmt::format("{} dimensions", dimensions), "at most 4");
  for (uint32_t i = 0; i < dimensions; ++i) {
    const auto size = cursor.take_number<uint64_t>(shown);
    if (size > static_cast<uint64_t>(INT64_MAX))
      fail(cursor.path(), shown, fmt::format("a size of {}", size), "sizes below 2^63");
    info.entry.shape.insert(info.entry.shape.begin(), static_cast<int64_t>(size));
  }
  const GgufTensorType& type =
      tensor_type(cursor.take_number<uint32_t>(shown), cursor.path(), shown);
  info.entry.dtype = type.name;
  info.entry.bytes = static_cast<size_t>(bytes_of(type, info.entry.shape, cursor.path(), shown));
  info.offset = cursor.take_number<uint64_t>(shown);
  return info;
}

uint64_t aligned(uint64_t bytes, uint64_t alignment) {
  return bytes + (alignment - bytes % alignment) % alignment;
}

/// Refuses tensors that lie in each other: a header of another file, or damaged.
void refuse_overlaps(const std::vector<SafetensorsEntry>& entries) {
  std::vector<const SafetensorsEntry*> by_place;
  for (const SafetensorsEntry& entry : entries)
    if (entry.bytes > 0) by_place.push_back(&entry);
  std::sort(by_place.begin(), by_place.end(),
            [](const auto* a, const auto* b) { return a->begin < b->begin; });
  for (size_t i = 1; i < by_place.size(); ++i) {
    const SafetensorsEntry &before = *by_place[i - 1], &entry = *by_place[i];
    if (entry.begin - before.begin < before.bytes)
      fail(entry.file, name_text(entry.name),
           fmt::format("begins in the {} bytes of {}", before.bytes, name_text(before.name)),
           "bytes of its own: is it damaged?");
  }
}

/// Gives each tensor its place in the file, whose data begins at `begin`.
std::vector<SafetensorsEntry> place_tensors(std::vector<TensorInfo> infos, uint64_t begin,
                                            const std::shared_ptr<const ReadFile>& file) {
  const uint64_t left = file->size() < begin ? 0 : file->size() - begin;
  std::vector<SafetensorsEntry> entries;
  for (TensorInfo& info : infos) {
    const uint64_t bytes = info.entry.bytes;
    if (bytes > 0 && (info.offset > left || bytes > left - info.offset))
      fail(file->path(), name_text(info.entry.name),
           fmt::format("{} bytes at offset {} of the data leave the file", bytes, info.offset),
           fmt::format("it has {}: is it truncated?", left));
    info.entry.source = file;
    info.entry.begin = bytes > 0 ? begin + info.offset : begin;
    entries.push_back(std::move(info.entry));
  }
  refuse_overlaps(entries);
  return entries;
}

std::vector<TensorInfo> take_infos(Cursor& cursor, uint64_t count) {
  std::vector<TensorInfo> infos;
  std::set<std::string> names;
  for (uint64_t i = 0; i < count; ++i) {
    infos.push_back(take_info(cursor, i));
    const std::string& name = infos.back().entry.name;
    if (!names.insert(name).second)
      fail(cursor.path(), name_text(name), "is there twice", "each tensor once");
  }
  return infos;
}

/// NVFP4's scale of the tensor is a tensor of its own; experts, matrices in one tensor of three
/// dimensions, have one each.
void join_scales(std::vector<SafetensorsEntry>& entries) {
  constexpr std::string_view kWeight = ".weight";
  for (SafetensorsEntry& entry : entries) {
    if (entry.dtype != "NVFP4" || !entry.name.ends_with(kWeight)) continue;
    const std::string name = entry.name.substr(0, entry.name.size() - kWeight.size()) + ".scale";
    const auto scale = std::find_if(entries.begin(), entries.end(),
                                    [&](const auto& other) { return other.name == name; });
    if (scale == entries.end()) continue;
    const int64_t matrices = entry.shape.size() > 2 ? entry.shape.front() : 1;
    const int64_t factors = scale->elements();
    if (scale->dtype != "F32" || (factors != 1 && factors != matrices))
      fail(entry.file, name_text(name),
           fmt::format("{} of shape {}", scale->dtype, json_text(scale->shape)),
           fmt::format("F32 [{}]", matrices));
    entry.factors.resize(static_cast<size_t>(factors));
    scale->read(0, std::as_writable_bytes(std::span(entry.factors)));
  }
}

void require_version(uint32_t version, const std::string& path) {
  if (version >= kOldestGgufVersion && version <= kGgufVersion) return;
  const std::string versions = fmt::format("{} or {}", kOldestGgufVersion, kGgufVersion);
  const bool is_big_endian = version != 0 && (version & 0xFFFFu) == 0;
  if (is_big_endian) fail(path, "version", "a big-endian file", versions + " in little-endian");
  fail(path, "version", fmt::format("{}", version), versions);
}

}  // namespace

bool is_gguf(const std::string& path) { return is_file(path) && begins_with(path, kMagic); }

Gguf Gguf::alone(const std::string& path) {
  Gguf gguf;
  gguf.paths_ = {path};
  const auto file = std::make_shared<const ReadFile>(path);
  Cursor cursor(*file);
  if (cursor.take(std::min<uint64_t>(kMagic.size(), file->size()), "") != kMagic)
    fail(path, "", "does not begin with \"GGUF\"", "is it a GGUF file?");
  require_version(cursor.take_number<uint32_t>("version"), path);
  const auto tensors = cursor.take_number<uint64_t>("tensor count");
  const auto keys = cursor.take_number<uint64_t>("key count");
  gguf.keys_ = take_keys(cursor, keys);
  const int64_t alignment = gguf.integer_or(kAlignmentKey, 1, INT32_MAX, kDefaultAlignment);
  if ((alignment & (alignment - 1)) != 0)
    gguf.refuse(kAlignmentKey, fmt::format("{}", alignment), "a power of two");
  std::vector<TensorInfo> infos = take_infos(cursor, tensors);
  const uint64_t begin = aligned(cursor.at(), static_cast<uint64_t>(alignment));
  gguf.entries_ = place_tensors(std::move(infos), begin, file);
  return gguf;
}

Gguf::Gguf(const std::string& path) : Gguf(alone(path)) {
  join(parts());
  join_scales(entries_);
}

const SafetensorsEntry* Gguf::find(std::string_view name) const {
  const auto found = std::find_if(entries_.begin(), entries_.end(),
                                  [&](const auto& entry) { return entry.name == name; });
  return found == entries_.end() ? nullptr : &*found;
}

void Gguf::refuse(std::string_view key, const std::string& problem,
                  const std::string& remedy) const {
  fail(path(), std::string(key), problem, remedy);
}

}  // namespace ng::io
