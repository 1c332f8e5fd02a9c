#include <array>
#include <cstring>
#include <set>

#include "base/error.h"
#include "base/json.h"
#include "io/gguf/gguf.h"

namespace ng::io {
namespace {

constexpr size_t kAlignment = 32;  // the default, so that its key is left out

size_t filling(uint64_t bytes) { return (kAlignment - bytes % kAlignment) % kAlignment; }

/// Appends what a GGUF header is made of.
class Header {
 public:
  template <class Value>
  void put(Value value) {
    const size_t at = text_.size();
    text_.resize(at + sizeof value);
    std::memcpy(text_.data() + at, &value, sizeof value);
  }
  void put_text(std::string_view text) {
    put<uint64_t>(text.size());
    text_.append(text);
  }
  void put_value(const GgufValue& value) {
    put(static_cast<uint32_t>(value.type));
    if (value.type == GgufType::text) return put_text(value.bytes);
    if (value.type != GgufType::array) {
      text_.append(value.bytes);
      return;
    }
    put(static_cast<uint32_t>(value.element));
    if (value.element == GgufType::text) {
      put<uint64_t>(value.texts.size());
      for (const std::string& text : value.texts) put_text(text);
      return;
    }
    put<uint64_t>(value.bytes.size() / number_bytes(value.element));
    text_.append(value.bytes);
  }
  [[nodiscard]] std::string take() {
    text_.append(filling(text_.size()), '\0');
    return std::move(text_);
  }

 private:
  std::string text_;
};

std::string header_of(const GgufKeys& keys, const std::vector<GgufTensor>& tensors) {
  Header header;
  for (const char c : {'G', 'G', 'U', 'F'}) header.put(c);
  header.put(kGgufVersion);
  header.put<uint64_t>(tensors.size());
  header.put<uint64_t>(keys.size());
  std::set<std::string_view> names;
  for (const auto& [key, value] : keys) {
    NG_CHECK(names.insert(key).second, key);
    header.put_text(key);
    header.put_value(value);
  }
  names.clear();
  uint64_t offset = 0;
  for (const GgufTensor& tensor : tensors) {
    NG_CHECK(names.insert(tensor.name).second, tensor.name);
    header.put_text(tensor.name);
    header.put(static_cast<uint32_t>(tensor.shape.size()));
    for (size_t i = tensor.shape.size(); i-- > 0;)  // innermost first
      header.put(static_cast<uint64_t>(tensor.shape[i]));
    header.put(find_gguf_type(tensor.type)->id);
    header.put(offset);
    const auto bytes = static_cast<uint64_t>(gguf_bytes(tensor));
    offset += bytes + filling(bytes);
  }
  return header.take();
}

}  // namespace

void require_gguf_tensor(const GgufTensor& tensor, const std::string& place) {
  const auto refuse = [&](const std::string& problem, const std::string& remedy) {
    throw Error({place, json_text(Json(tensor.name)), problem, remedy});
  };
  const GgufTensorType* type = find_gguf_type(tensor.type);
  NG_CHECK(type != nullptr, tensor.type);
  if (tensor.name.size() > kMaxGgufName)
    refuse(fmt::format("a name of {} bytes", tensor.name.size()), "GGUF takes 63");
  if (tensor.shape.size() > kMaxGgufDimensions)
    refuse(fmt::format("{} dimensions", tensor.shape.size()), "GGUF takes 4");
  const int64_t row = tensor.shape.empty() ? 1 : tensor.shape.back();
  if (row % type->block != 0)
    refuse(fmt::format("shape {}: rows of {} are no whole blocks of {} for {}",
                       json_text(tensor.shape), row, type->block, type->name),
           fmt::format("--keep '{}=bf16'", tensor.name));
}

int64_t gguf_bytes(const GgufTensor& tensor) {
  const GgufTensorType* type = find_gguf_type(tensor.type);
  NG_CHECK(type != nullptr, tensor.type);
  int64_t values = 1;
  for (const int64_t size : tensor.shape) {
    const bool overflows = __builtin_mul_overflow(values, size, &values);
    NG_CHECK(!overflows && size >= 0, tensor.name, size);
  }
  NG_CHECK(values % type->block == 0, tensor.name, values);
  return values / type->block * type->bytes;
}

GgufWriter::GgufWriter(const std::string& path, const GgufKeys& keys,
                       std::vector<GgufTensor> tensors)
    : file_(path), tensors_(std::move(tensors)) {
  for (const GgufTensor& tensor : tensors_) require_gguf_tensor(tensor, path);
  file_.write(header_of(keys, tensors_));
  if (!tensors_.empty()) bytes_left_ = gguf_bytes(tensors_[0]);
  finish_complete();
}

void GgufWriter::write(std::span<const std::byte> bytes) {
  NG_CHECK(std::ssize(bytes) <= bytes_left_, bytes.size(), bytes_left_);
  file_.write(bytes.data(), bytes.size());
  bytes_left_ -= std::ssize(bytes);
  finish_complete();
}

/// Behind a tensor that is complete, zeros up to the alignment.
void GgufWriter::finish_complete() {
  constexpr std::array<char, kAlignment> kZeros{};
  while (bytes_left_ == 0 && tensor_ < tensors_.size()) {
    const auto bytes = static_cast<uint64_t>(gguf_bytes(tensors_[tensor_]));
    file_.write(kZeros.data(), filling(bytes));
    if (++tensor_ < tensors_.size()) bytes_left_ = gguf_bytes(tensors_[tensor_]);
  }
}

void GgufWriter::commit() {
  NG_CHECK(tensor_ == tensors_.size(), tensor_, tensors_.size());
  file_.commit();
}

}  // namespace ng::io
