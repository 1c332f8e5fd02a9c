#include "data/token_source.h"

#include <algorithm>

#include "base/error.h"

namespace ng {

void TokenSource::read_mask(int64_t first, std::span<float> out) const {
  require_tokens(*this, first, std::ssize(out));
  std::fill(out.begin(), out.end(), 1.0f);
}

int64_t TokenSource::target_tokens(int64_t first, int64_t count) const {
  require_tokens(*this, first, count);
  return count;
}

void require_tokens(const TokenSource& source, int64_t first, int64_t count) {
  NG_CHECK(first >= 0 && count >= 0 && first <= source.tokens() - count, first, count,
           source.tokens());
}

}  // namespace ng
