#include "io/hf/expert_tensor.h"

#include <algorithm>
#include <memory>

#include "base/error.h"
#include "base/json.h"
#include "format/codec.h"
#include "format/packing.h"
#include "format/scale.h"

namespace ng::io {
namespace {

constexpr std::string_view kBlocks = "_blocks";
constexpr int64_t kBlock = 32, kBlockBytes = 16;

float e8m0_scale(const SafetensorsEntry& entry, uint8_t code) {
  if (code == kE8m0NanCode) entry.refuse("holds the scale 255", "scales from 0 to 254");
  return e8m0_value(code);
}

/// The expert that was asked for last.
struct HeldExpert {
  int64_t index = -1;
  std::vector<float> values;
};

}  // namespace

bool holds_expert_codes(const SafetensorsEntry& entry) { return entry.name.ends_with(kBlocks); }

ExpertTensor::ExpertTensor(const SafetensorsEntry& blocks, const FindEntry& find)
    : blocks_(blocks),
      name_(blocks.name.substr(0, blocks.name.size() - kBlocks.size())),
      elements_(decode_table(element_format("float4_e2m1fn"))) {
  const auto require = [](const SafetensorsEntry& entry, bool fits, const std::string& shape) {
    if (entry.dtype != "U8") entry.refuse("dtype " + entry.dtype, "U8");
    if (!fits) entry.refuse("shape " + json_text(entry.shape), shape);
  };
  const std::vector<int64_t>& shape = blocks.shape;
  require(blocks, shape.size() == 4 && shape[3] == kBlockBytes, "(experts, out, in/32, 16)");
  const SafetensorsEntry* scales = find(name_ + "_scales");
  if (scales == nullptr)
    blocks.refuse("has no " + name_ + "_scales", "the folder as it was written");
  scales_ = *scales;
  const std::vector<int64_t> by_block(shape.begin(), shape.end() - 1);
  require(scales_, scales_.shape == by_block,
          fmt::format("{} beside {}", json_text(by_block), blocks.name));
  experts_ = shape[0];
  out_ = shape[1];
  if (__builtin_mul_overflow(shape[2], kBlock, &in_))  // of no expert
    blocks.refuse("shape " + json_text(shape), "sizes that fit 63 bits");
}

SafetensorsEntry ExpertTensor::entry() const {
  SafetensorsEntry weight = blocks_;
  weight.name = name_;
  weight.dtype = "F4";
  weight.shape = {experts_, in_, out_};
  weight.open_values = [tensor = std::make_shared<const ExpertTensor>(*this)]() -> ReadValues {
    return [tensor, held = std::make_shared<HeldExpert>()](int64_t first, std::span<float> values) {
      const int64_t size = tensor->expert_size();
      while (!values.empty()) {
        if (held->index != first / size) {
          held->values.resize(static_cast<size_t>(size));
          tensor->read(first / size, held->values);
          held->index = first / size;
        }
        const auto count = std::min<int64_t>(size - first % size, std::ssize(values));
        std::copy_n(held->values.begin() + first % size, count, values.begin());
        first += count;
        values = values.subspan(static_cast<size_t>(count));
      }
    };
  };
  return weight;
}

void ExpertTensor::read(int64_t expert, std::span<float> values) const {
  NG_CHECK(expert >= 0 && expert < experts_ && std::ssize(values) == expert_size(), expert);
  if (values.empty()) return;
  const auto in = static_cast<size_t>(in_), out = static_cast<size_t>(out_);
  const size_t blocks = in / kBlock;
  std::vector<uint8_t> bytes(blocks * kBlockBytes), scales(blocks);
  std::vector<uint16_t> codes(in);
  for (size_t row = 0; row < out; ++row) {
    const size_t before = static_cast<size_t>(expert) * out + row;
    blocks_.read(before * bytes.size(), std::as_writable_bytes(std::span(bytes)));
    scales_.read(before * scales.size(), std::as_writable_bytes(std::span(scales)));
    unpack_codes(bytes, 4, codes);
    for (size_t i = 0; i < in; ++i)
      values[i * out + row] = elements_[codes[i]] * e8m0_scale(scales_, scales[i / kBlock]);
  }
}

}  // namespace ng::io
