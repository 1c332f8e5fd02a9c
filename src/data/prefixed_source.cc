#include "data/prefixed_source.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/checksum.h"

namespace ng {
namespace {

/// Of tokens [first, first + count): how many are before the rest, and which of the rest's own.
struct Part {
  int64_t before, first, count;
};

Part part_of(int64_t first, int64_t count) {
  const int64_t before = first == 0 && count > 0 ? 1 : 0;
  return {.before = before, .first = first + before - 1, .count = count - before};
}

}  // namespace

PrefixedSource::PrefixedSource(int32_t prefix, std::unique_ptr<TokenSource> rest)
    : prefix_(prefix), rest_(std::move(rest)) {}

void PrefixedSource::read(int64_t first, std::span<int32_t> out) const {
  const Part part = part_of(first, std::ssize(out));
  if (part.before == 1) out.front() = prefix_;
  rest_->read(part.first, out.subspan(static_cast<size_t>(part.before)));
}

void PrefixedSource::read_mask(int64_t first, std::span<float> out) const {
  const Part part = part_of(first, std::ssize(out));
  if (part.before == 1) out.front() = 0;
  rest_->read_mask(part.first, out.subspan(static_cast<size_t>(part.before)));
}

// The prefix is of the first document.
void PrefixedSource::read_begins(int64_t first, std::span<uint8_t> out) const {
  const Part part = part_of(first, std::ssize(out));
  rest_->read_begins(part.first, out.subspan(static_cast<size_t>(part.before)));
  if (first <= 1 && first + std::ssize(out) > 1) out[static_cast<size_t>(1 - first)] = 0;
  if (part.before == 1) out.front() = 1;
}

int64_t PrefixedSource::target_tokens(int64_t first, int64_t count) const {
  const Part part = part_of(first, count);
  return rest_->target_tokens(part.first, part.count);
}

int64_t PrefixedSource::target_bytes(int64_t first, int64_t count) const {
  const Part part = part_of(first, count);
  return rest_->target_bytes(part.first, part.count);
}

std::string PrefixedSource::checksum() const {
  const std::string text = fmt::format("{} {}", prefix_, rest_->checksum());
  return checksum_of(std::as_bytes(std::span(text)));
}

}  // namespace ng
