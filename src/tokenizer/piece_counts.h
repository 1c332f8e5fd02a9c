// How often each piece of texts occurs.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/threads.h"

namespace ng {

using PieceCounts = std::unordered_map<std::string, int64_t>;

/// Pieces as `pattern`, the name of a known_pattern(), cuts each text, made valid and, with
/// `compose`, normalized to NFC.
[[nodiscard]] PieceCounts count_pieces(const std::vector<std::string_view>& texts,
                                       std::string_view pattern, bool compose, Threads threads);

/// Stretches of a text of about `bytes` that known patterns cut as they cut the whole: borders lie
/// between a line's end behind anything but white space, and a letter. There every pattern has one,
/// and none looks beyond it.
[[nodiscard]] std::vector<std::string_view> stretches_of(std::string_view text, size_t bytes);

}  // namespace ng
