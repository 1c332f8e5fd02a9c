#include "data/token_source.h"

#include "base/error.h"

namespace ng {

void require_tokens(const TokenSource& source, int64_t first, int64_t count) {
  NG_CHECK(first >= 0 && count >= 0 && first <= source.tokens() - count, first, count,
           source.tokens());
}

}  // namespace ng
