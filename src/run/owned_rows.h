// What the owners of rows have made of them comes to all ranks. [distributed.md §1]
#pragma once

#include <span>
#include <vector>

#include "comm/comm.h"
#include "comm/partition.h"
#include "run/run.h"

namespace ng {

/// Messages by which the rows of tensors that lie whole on every rank become those of their owners,
/// as they are stored, scales too: one of the whole tensor comes from the owner of its first rows.
struct RowMessages {
  std::vector<Outgoing> out;
  std::vector<Incoming> in;
  int64_t elements = 0;  ///< of all tensors

  void add(const Comm& comm, const View& tensor, std::span<const Piece> pieces);
};

/// The same at once. Called by all ranks of `comm`; in a dry run nothing is sent.
void send_rows(Run& run, Comm& comm, const View& tensor, std::span<const Piece> pieces);

}  // namespace ng
