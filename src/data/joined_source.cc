#include "data/joined_source.h"

#include <algorithm>
#include <utility>

#include "base/checksum.h"
#include "base/error.h"

namespace ng {

JoinedSource::JoinedSource(std::vector<std::unique_ptr<TokenSource>> parts)
    : parts_(std::move(parts)) {
  for (const auto& part : parts_) tokens_ += part->tokens();
}

void JoinedSource::each_stretch(int64_t first, int64_t count,
                                const std::function<void(const Stretch&)>& act) const {
  NG_CHECK(first >= 0 && count >= 0 && first + count <= tokens_, first, count, tokens_);
  int64_t done = 0;
  for (const auto& part : parts_) {
    if (done == count) return;
    const int64_t from = first + done, here = std::min(part->tokens() - from, count - done);
    if (here > 0) {
      act({*part, from, static_cast<size_t>(done), static_cast<size_t>(here)});
      done += here;
    }
    first -= part->tokens();
  }
}

void JoinedSource::read(int64_t first, std::span<int32_t> out) const {
  each_stretch(first, std::ssize(out), [&](const Stretch& stretch) {
    stretch.part.read(stretch.from, out.subspan(stretch.at, stretch.count));
  });
}

bool JoinedSource::has_mask() const {
  return std::any_of(parts_.begin(), parts_.end(),
                     [](const auto& part) { return part->has_mask(); });
}

void JoinedSource::read_mask(int64_t first, std::span<float> out) const {
  each_stretch(first, std::ssize(out), [&](const Stretch& stretch) {
    stretch.part.read_mask(stretch.from, out.subspan(stretch.at, stretch.count));
  });
}

void JoinedSource::read_begins(int64_t first, std::span<uint8_t> out) const {
  each_stretch(first, std::ssize(out), [&](const Stretch& stretch) {
    stretch.part.read_begins(stretch.from, out.subspan(stretch.at, stretch.count));
  });
}

bool JoinedSource::keeps_document_whole(int64_t token) const {
  bool keeps = false;
  each_stretch(token, 1, [&](const Stretch& stretch) {
    keeps = stretch.part.keeps_document_whole(stretch.from);
  });
  return keeps;
}

int64_t JoinedSource::target_tokens(int64_t first, int64_t count) const {
  int64_t tokens = 0;
  each_stretch(first, count, [&](const Stretch& stretch) {
    tokens += stretch.part.target_tokens(stretch.from, static_cast<int64_t>(stretch.count));
  });
  return tokens;
}

int64_t JoinedSource::target_bytes(int64_t first, int64_t count) const {
  int64_t bytes = 0;
  each_stretch(first, count, [&](const Stretch& stretch) {
    bytes += stretch.part.target_bytes(stretch.from, static_cast<int64_t>(stretch.count));
  });
  return bytes;
}

std::string JoinedSource::checksum_by(std::string (TokenSource::*of)() const) const {
  std::string text;
  for (const auto& part : parts_) text += fmt::format("{} {}\n", part->tokens(), (*part.*of)());
  return checksum_of(std::as_bytes(std::span(text)));
}

std::string JoinedSource::checksum() const { return checksum_by(&TokenSource::checksum); }

std::string JoinedSource::older_checksum() const {
  return checksum_by(&TokenSource::older_checksum);
}

}  // namespace ng
