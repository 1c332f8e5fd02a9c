// Means of gradients as all ranks would have them that do not update what they own: rounded once
// more, by the wire's cast, and gathered.
#pragma once

#include <span>
#include <vector>

#include "backend/backend_memory.h"
#include "comm/gradient_exchange.h"

namespace ng::gathered_mean {

using Bytes = std::vector<std::byte>;

/// The pieces of all ranks to all. bytes_of(rank): of what that one owns.
template <class BytesOf, class Append>
Inbox gather(Comm& comm, Traffic kind, const BytesOf& bytes_of_rank, const Append& append) {
  Inbox all;
  size_t bytes = 0;
  for (int rank = 0; rank < comm.ranks(); ++rank)
    bytes += all.sizes.emplace_back(bytes_of_rank(rank));
  Bytes mine;
  append(comm.rank(), mine);
  all.bytes.resize(bytes);
  comm.all_gather(kind, mine, all.bytes, all.sizes);
  return all;
}

/// Stores this rank's part of a mean, as part of a whole with this amax.
inline void store_pieces(Backend& backend, std::span<const float> mean, float amax,
                         std::span<const Piece> pieces, int owner, const Stored& y) {
  if (mean.empty()) return;
  const BackendMemory values(backend, mean.size_bytes()), of_all(backend, sizeof amax);
  backend.upload(values.data(), mean.data(), mean.size_bytes());
  backend.upload(of_all.data(), &amax, sizeof amax);
  const float* x = values.floats();
  for (const Piece& piece : pieces) {
    if (piece.owner != owner || piece.rows == 0) continue;
    const Stored part = Stored{rows_of(y.view, piece), y.cast}.rounded_by(Rounding::nearest);
    backend.execute(StoreGradient{.y = part,
                                  .x = ConstView(x, piece.rows, y.view.cols, y.view.cols),
                                  .key = {},
                                  .amax = of_all.floats()});
    x += piece.rows * y.view.cols;
  }
}

/// A piece that came in, into rows of a tensor in backend memory, with its scales.
inline void put_piece(Backend& backend, const ReceivedPiece& piece, const View& y) {
  const ConstView& x = piece.view;
  const size_t row = bytes_of(*x.element, x.stride);
  for (int64_t r = 0; r < x.rows; ++r)
    backend.upload(y.data + bytes_of(*y.element, r * y.stride),
                   x.data + static_cast<size_t>(r) * row, row);
  if (!x.has_scales()) return;
  const int64_t last = x.scale_index(x.rows - 1, x.cols - 1);
  backend.upload(y.scales.data, x.scales.data, bytes_of(*x.scales.element, last + 1));
  if (y.scales.tensor != nullptr)
    backend.upload(reinterpret_cast<std::byte*>(y.scales.tensor), &piece.level, sizeof(float));
}

/// The means of all pieces, rounded once, nearest even, into y of every rank, with fresh scales of
/// the same kind. `amax`: amax_of(mean) over all ranks. [errata-2, 29]
inline void gather_gradient(Comm& comm, Backend& backend, std::span<const float> mean, float amax,
                            std::span<const Piece> pieces, const Stored& y) {
  store_pieces(backend, mean, amax, pieces, comm.rank(), y);
  const HostGradient own(backend, y.view);
  const ConstView& x = own.view();
  const Inbox elements = gather(
      comm, Traffic::gradients, [&](int of) { return element_bytes(x, pieces, of); },
      [&](int of, Bytes& out) { append_elements(x, pieces, of, out); });
  const Inbox scales = gather(
      comm, Traffic::scales, [&](int of) { return scale_bytes(x, pieces, of); },
      [&](int of, Bytes& out) { append_scales(x, pieces, of, out); });
  for (int rank = 0; rank < comm.ranks(); ++rank) {
    const auto at = static_cast<size_t>(rank);
    const std::vector<ReceivedPiece> received =
        received_pieces(x, pieces, rank, elements.of(at), scales.of(at));
    auto it = received.begin();
    for (const Piece& piece : pieces)
      if (piece.owner == rank && piece.rows > 0) put_piece(backend, *it++, rows_of(y.view, piece));
  }
}

}  // namespace ng::gathered_mean
