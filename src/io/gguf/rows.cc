#include "io/gguf/rows.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "base/json.h"
#include "format/packing.h"
#include "io/gguf/blocks.h"

namespace ng {

std::optional<NarrowForm> narrow_form_of(std::string_view gguf_type) {
  if (gguf_type == "MXFP4") return NarrowForm::mxfp4;
  if (gguf_type == "NVFP4") return NarrowForm::nvfp4;
  return {};
}

PlainRows::PlainRows(std::string_view type, std::string place, std::string tensor)
    : type_(type), place_(std::move(place)), tensor_(std::move(tensor)) {
  if (type == "F16") codec_.emplace(element_format("float16"));
  if (type == "BF16") codec_.emplace(element_format("bfloat16"));
}

void PlainRows::require_q8_0(std::span<const float> row) const {
  for (const float value : row) {
    if (io::fits_q8_0(std::fabs(value))) continue;
    throw Error({.place = place_,
                 .key = json_text(Json(tensor_)),
                 .problem = fmt::format("{} does not fit Q8_0, whose scale is FP16", value),
                 .remedy = "bf16 or f32"});
  }
}

std::span<const std::byte> PlainRows::bytes(std::span<const float> row) {
  if (type_ == "F32") return std::as_bytes(row);
  if (!codec_) {
    const io::GgufTensorType& type = *io::find_gguf_type(type_);
    require_q8_0(row);
    blocks_.resize(static_cast<size_t>(std::ssize(row) / type.block * type.bytes));
    io::encode_q8_0(row, blocks_);
    return blocks_;
  }
  const float largest = max_value(codec_->format());
  codes_.resize(row.size());
  for (size_t i = 0; i < row.size(); ++i) {
    codes_[i] = static_cast<uint16_t>(codec_->encode(row[i], {}, OverflowRule::special));
    if (std::fabs(codec_->decode(codes_[i])) <= largest) continue;
    throw Error({.place = place_,
                 .key = json_text(Json(tensor_)),
                 .problem = fmt::format("{} does not fit {}", row[i], type_),
                 .remedy = type_ == "F16" ? "bf16 or f32" : "f32"});
  }
  return std::as_bytes(std::span<const uint16_t>(codes_));
}

std::vector<std::byte> gguf_row(const NarrowMatrix& matrix, NarrowForm form, int64_t row) {
  const GgufBlock& kind = form == NarrowForm::mxfp4 ? kGgufMxfp4 : kGgufNvfp4;
  std::vector<std::byte> bytes(static_cast<size_t>(matrix.cols / kind.elements * kind.bytes()));
  pack_gguf(kind, codes_of_row(matrix, row), scale_codes_of_row(matrix, row),
            {reinterpret_cast<uint8_t*>(bytes.data()), bytes.size()});
  return bytes;
}

}  // namespace ng
