// A source with one token before it, which is no target.
#pragma once

#include <memory>

#include "data/joined_source.h"

namespace ng {

class PrefixedSource final : public JoinedSource {
 public:
  PrefixedSource(int32_t prefix, std::unique_ptr<TokenSource> rest);
  /// The prefix is of the first document.
  void read_begins(int64_t first, std::span<uint8_t> out) const override;
};

}  // namespace ng
