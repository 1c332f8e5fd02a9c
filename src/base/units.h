// Sizes, durations and counts as people read them.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace ng {

/// "12.3 MiB"
[[nodiscard]] std::string size_text(double bytes);
/// Bytes of "80GB", "1.5 GiB", "4096": KB, MB, GB, TB are powers of 1,000, KiB, MiB, GiB, TiB of
/// 1,024. Nothing where the text is no such size, or one of less than a byte or above 1,000 TiB.
[[nodiscard]] std::optional<uint64_t> parse_size(std::string_view text);
/// "1m52s", "3h05m"
[[nodiscard]] std::string duration_text(double seconds);
/// "4,712,960"
[[nodiscard]] std::string count_text(int64_t count);
/// "1 layer", "2 layers"; "1 batch", "2 batches"
[[nodiscard]] std::string counted(int64_t count, std::string_view thing);

}  // namespace ng
