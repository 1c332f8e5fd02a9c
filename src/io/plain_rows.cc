#include "io/plain_rows.h"

#include <cmath>

#include "base/error.h"
#include "base/json.h"
#include "io/gguf/blocks.h"

namespace ng {

RefuseValue refuse_value_of(const std::string& place, const std::string& tensor,
                            std::string_view type) {
  const bool is_q8_0 = type == "Q8_0";
  return [=, type = std::string(type)](float value) {
    throw Error({.place = place,
                 .key = json_text(Json(tensor)),
                 .problem = fmt::format("{} does not fit {}{}", value, type,
                                        is_q8_0 ? ", whose scale is FP16" : ""),
                 .remedy = is_q8_0 || type == "F16" ? "bf16 or f32" : "f32"});
  };
}

PlainRows::PlainRows(std::string_view type, RefuseValue refuse)
    : type_(type), refuse_(std::move(refuse)) {
  if (type == "F16") codec_.emplace(element_format("float16"));
  if (type == "BF16") codec_.emplace(element_format("bfloat16"));
}

std::span<const std::byte> PlainRows::bytes(std::span<const float> row) {
  if (type_ == "F32") return std::as_bytes(row);
  if (!codec_) {
    const io::GgufTensorType& type = *io::find_gguf_type(type_);
    for (const float value : row)
      if (!io::fits_q8_0(std::fabs(value))) refuse_(value);
    blocks_.resize(static_cast<size_t>(std::ssize(row) / type.block * type.bytes));
    io::encode_q8_0(row, blocks_);
    return blocks_;
  }
  const float largest = max_value(codec_->format());
  codes_.resize(row.size());
  for (size_t i = 0; i < row.size(); ++i) {
    codes_[i] = static_cast<uint16_t>(codec_->encode(row[i], {}, OverflowRule::special));
    if (std::isfinite(row[i]) && std::fabs(codec_->decode(codes_[i])) > largest) refuse_(row[i]);
  }
  return std::as_bytes(std::span<const uint16_t>(codes_));
}

}  // namespace ng
