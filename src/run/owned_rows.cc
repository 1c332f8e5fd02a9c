#include "run/owned_rows.h"

#include "comm/gradient_pieces.h"
#include "comm/memory_messages.h"
#include "comm/row_messages.h"

namespace ng {

void RowMessages::add(const Comm& comm, const View& tensor, std::span<const Piece> pieces) {
  const bool has_one = has_one_scale(tensor);
  for (const Piece& piece : pieces) {
    View rows = rows_of(tensor, piece);
    if (has_one && piece.first_row > 0) rows.scales = {};  // came with the first rows
    if (piece.owner != comm.rank()) {
      append_from(rows, piece.owner, in);
      continue;
    }
    for (int to = 0; to < comm.ranks(); ++to)
      if (to != comm.rank()) append_to(rows, Traffic::weights, to, out);
  }
  elements += tensor.size();
}

void send_rows(Run& run, Comm& comm, const View& tensor, std::span<const Piece> pieces) {
  if (comm.ranks() == 1 || run.recording()) return;
  RowMessages messages;
  messages.add(comm, tensor, pieces);
  exchange(comm, run.backend(), messages.out, messages.in);
}

}  // namespace ng
