// Long arrays worked through by several threads.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "base/threads.h"

namespace ng::python {

/// work(first, how many) for pieces of `count` values, in any order.
template <class Work>
void for_pieces(Threads threads, size_t count, const Work& work) {
  constexpr size_t kPiece = size_t{1} << 16;
  const auto pieces = static_cast<int64_t>((count + kPiece - 1) / kPiece);
  parallel_for(threads, pieces, [&](int64_t piece, int) {
    const size_t first = static_cast<size_t>(piece) * kPiece;
    work(first, std::min(kPiece, count - first));
  });
}

}  // namespace ng::python
