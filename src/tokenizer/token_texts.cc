#include "tokenizer/token_texts.h"

#include <algorithm>
#include <charconv>

#include "base/error.h"
#include "base/json.h"

namespace ng {
namespace {

constexpr int64_t kMaxStrip = 1 << 20;

/// The byte of a name like "<0x0A>", or -1.
int byte_of_fallback_name(std::string_view name) {
  if (name.size() != 6 || !name.starts_with("<0x") || !name.ends_with('>')) return -1;
  int byte = -1;
  const char* const end = name.data() + 5;
  const auto [behind, failed] = std::from_chars(name.data() + 3, end, byte, 16);
  return failed == std::errc() && behind == end && byte >= 0 ? byte : -1;
}

bool is_byte_level(const JsonObject& decoder) {
  if (decoder.text("type") != "Sequence") return decoder.text("type") == "ByteLevel";
  const Json& steps = decoder.at("decoders", "a list of decoders");
  return steps.is_array() && steps.size() == 1 &&
         JsonObject(steps[0], decoder.place(), "decoder.decoders[0].").text("type") == "ByteLevel";
}

}  // namespace

TokenTexts::TokenTexts(const JsonObject& file, bool is_of_bytes,
                       const std::vector<std::string>& names, std::span<const NamedToken> added) {
  const JsonObject decoder = file.object("decoder");
  if (is_of_bytes != is_byte_level(decoder))
    file.refuse("decoder", fmt::format("{} is not supported", brief(decoder.value())),
                is_of_bytes ? "ByteLevel, as the pre_tokenizer is"
                            : "a Sequence of Replace, ByteFallback, Fuse and Strip");
  if (!is_of_bytes) read_steps(decoder);
  for (const std::string& name : names)
    texts_.push_back(is_of_bytes ? bytes_of_name(name) : text_of(name));
  for (const auto& [token, normalized] : added) {
    if (texts_.size() <= size_t(token.id)) texts_.resize(size_t(token.id) + 1);
    texts_[size_t(token.id)] = is_of_bytes ? token.content : text_of(normalized);
  }
}

// As far as their order allows, what is done to each token by itself is done here, once.
void TokenTexts::read_steps(const JsonObject& decoder) {
  if (decoder.text("type") != "Sequence")
    decoder.refuse("type", fmt::format("{} is not supported", brief(decoder.at("type"))),
                   "ByteLevel, or a Sequence of Replace, ByteFallback, Fuse and Strip");
  const Json& list = decoder.at("decoders");
  if (!list.is_array()) decoder.refuse("decoders", brief(list), "a list");
  const std::vector<std::string> order = {"Replace", "ByteFallback", "Fuse", "Strip"};
  size_t last = 0;
  for (size_t i = 0; i < list.size(); ++i) {
    const JsonObject step(list[i], decoder.place(), fmt::format("decoder.decoders[{}].", i));
    const std::string type = step.text("type");
    const auto place =
        static_cast<size_t>(std::find(order.begin(), order.end(), type) - order.begin());
    if (place == order.size() || place < last || (type == "Strip" && last < 2))
      step.refuse("type", fmt::format("\"{}\" here is not supported", type),
                  "Replace, ByteFallback, Fuse, Strip, in this order");
    last = place;
    if (type == "Replace")
      replacements_.push_back({step.object("pattern").text("String"), step.text("content")});
    if (type == "Replace" && replacements_.back().from.empty())
      step.refuse("pattern", "an empty String", "a text");
    if (type == "ByteFallback") has_byte_names_ = true;
    if (type != "Strip") continue;
    stripped_ = step.text("content");
    times_ = step.integer("start", 0, kMaxStrip);
    if (stripped_.empty()) step.refuse("content", "empty", "a character");
    (void)step.integer("stop", 0, 0);
  }
}

std::string TokenTexts::text_of(const std::string& name) const {
  std::string text = name;
  for (const Replacement& replacement : replacements_) {
    std::string replaced;
    size_t done = 0;
    for (size_t at = text.find(replacement.from); at != std::string::npos;
         at = text.find(replacement.from, done)) {
      replaced.append(text, done, at - done).append(replacement.to);
      done = at + replacement.from.size();
    }
    text = replaced.append(text, done);
  }
  const int byte = has_byte_names_ ? byte_of_fallback_name(text) : -1;
  return byte < 0 ? text : std::string(1, static_cast<char>(byte));
}

std::string TokenTexts::joined(std::span<const int32_t> ids) const {
  std::string text;
  for (int32_t id : ids) text += texts_[size_t(id)];
  size_t begin = 0;
  for (int64_t i = 0; i < times_ && std::string_view(text).substr(begin).starts_with(stripped_);
       ++i)
    begin += stripped_.size();
  return begin == 0 ? text : text.substr(begin);
}

}  // namespace ng
