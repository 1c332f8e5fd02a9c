#include "data/text_likeness.h"

#include <fmt/format.h>

#include <cmath>
#include <map>
#include <numeric>

namespace ng {
namespace {

int64_t sum_of(const ByteCounts& counts) {
  return std::accumulate(counts.begin(), counts.end(), int64_t{0});
}

}  // namespace

void add_bytes_of(std::span<const int32_t> ids, const Tokenizer& tokenizer, ByteCounts* counts) {
  std::map<int32_t, int64_t> by_id;
  for (const int32_t id : ids) ++by_id[id];
  for (const auto& [id, count] : by_id)
    for (const char byte : tokenizer.decode({&id, 1}))
      (*counts)[static_cast<unsigned char>(byte)] += count;
}

bool TextLikeness::is_unlike() const {
  constexpr double kMostBits = 0.25;
  constexpr int64_t kLeastBytes = 4096;
  return bytes >= kLeastBytes && bits_by_others - own_bits >= kMostBits;
}

std::optional<TextLikeness> likeness(const ByteCounts& text, const ByteCounts& others) {
  constexpr double kHalf = 0.5;
  const auto bytes = static_cast<double>(sum_of(text));
  const double all = static_cast<double>(sum_of(others)) + kHalf * std::ssize(others);
  if (bytes == 0 || sum_of(others) == 0) return {};
  TextLikeness found{.bytes = sum_of(text)};
  for (size_t byte = 0; byte < text.size(); ++byte) {
    if (text[byte] == 0) continue;
    const double share = static_cast<double>(text[byte]) / bytes;
    found.own_bits -= share * std::log2(share);
    found.bits_by_others -= share * std::log2((static_cast<double>(others[byte]) + kHalf) / all);
  }
  return found;
}

std::string warning_of(const TextLikeness& likeness) {
  return fmt::format(
      "the validation text is unlike the training text: by the frequencies of the training text's "
      "bytes a byte of it takes {:.2f} bits, by those of its own {:.2f}; its loss says little of "
      "what was learned",
      likeness.bits_by_others, likeness.own_bits);
}

}  // namespace ng
