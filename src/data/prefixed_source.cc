#include "data/prefixed_source.h"

#include <utility>

#include "data/memory_source.h"

namespace ng {
namespace {

std::vector<std::unique_ptr<TokenSource>> behind(int32_t prefix,
                                                 std::unique_ptr<TokenSource> rest) {
  std::vector<std::unique_ptr<TokenSource>> parts;
  const MaskedTokens before{.ids = {prefix}, .is_target = {0}, .begins = {0}};
  parts.push_back(std::make_unique<MemorySource>(before, std::vector<int64_t>()));
  parts.push_back(std::move(rest));
  return parts;
}

}  // namespace

PrefixedSource::PrefixedSource(int32_t prefix, std::unique_ptr<TokenSource> rest)
    : JoinedSource(behind(prefix, std::move(rest))) {}

void PrefixedSource::read_begins(int64_t first, std::span<uint8_t> out) const {
  JoinedSource::read_begins(first, out);
  if (first <= 1 && first + std::ssize(out) > 1) out[static_cast<size_t>(1 - first)] = 0;
}

}  // namespace ng
