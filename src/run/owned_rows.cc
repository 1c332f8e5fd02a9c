#include "run/owned_rows.h"

#include <algorithm>
#include <numeric>
#include <utility>

namespace ng {
namespace {

// Elements that a rank gets from each of the others at once: what is on the way stays small.
constexpr int64_t kChunk = int64_t{1} << 18;

/// The pieces of one tensor that a rank owns, as one sequence of elements.
class OwnedRow {
 public:
  OwnedRow(std::span<const Piece> pieces, int64_t cols, int owner) : cols_(cols) {
    for (const Piece& piece : pieces)
      if (piece.owner == owner) pieces_.push_back(piece);
  }

  [[nodiscard]] const std::vector<Piece>& pieces() const { return pieces_; }
  [[nodiscard]] int64_t elements() const {
    int64_t count = 0;
    for (const Piece& piece : pieces_) count += piece.rows * cols_;
    return count;
  }
  /// How many of the elements [first, first + kChunk) there are.
  [[nodiscard]] int64_t count_from(int64_t first) const {
    return std::clamp<int64_t>(elements() - first, 0, kChunk);
  }
  /// body(piece, element of the tensor, element of the piece, element of the chunk, count) for the
  /// runs of elements that lie side by side, of a chunk that begins with `first`.
  template <class Body>
  void for_runs(int64_t first, const Body& body) const {
    int64_t begin = 0;  // of a piece
    const int64_t end = first + count_from(first);
    for (size_t i = 0; i < pieces_.size(); ++i) {
      const int64_t size = pieces_[i].rows * cols_;
      const int64_t from = std::max(first, begin), to = std::min(end, begin + size);
      if (from < to)
        body(i, pieces_[i].first_row * cols_ + from - begin, from - begin, from - first, to - from);
      begin += size;
    }
  }

 private:
  int64_t cols_;
  std::vector<Piece> pieces_;
};

View values(std::byte* at, int64_t first, int64_t count) {
  return {at + first * static_cast<int64_t>(sizeof(float)), fp32_format(), 1, count, count};
}

/// Rows [first, first + count) of elements that lie tightly.
std::span<std::byte> bytes_of_rows(const View& view, int64_t first, int64_t count) {
  const size_t row = ng::bytes_of(*view.element, view.stride);
  return {view.data + static_cast<size_t>(first) * row, static_cast<size_t>(count) * row};
}

size_t bytes_of(int64_t elements) { return static_cast<size_t>(elements) * sizeof(float); }

/// One tensor on its way to those who own it.
class Exchange {
 public:
  Exchange(Run& run, Comm& comm, std::span<const std::vector<TreeNode>> nodes,
           std::span<const Piece> pieces, int64_t cols)
      : run_(run), comm_(comm), nodes_(nodes) {
    const int ranks = comm.ranks();
    for (int rank = 0; rank < ranks; ++rank) owners_.emplace_back(pieces, cols, rank);
    for (const OwnedRow& owner : owners_) longest_ = std::max(longest_, owner.elements());
    for (const std::vector<TreeNode>& of_rank : nodes) slots_ = std::max(slots_, of_rank.size());
    const auto chunk = static_cast<size_t>(ranks) * bytes_of(std::min(longest_, kChunk));
    out_ = run.bytes(chunk, MemoryKind::gradients);
    in_ = run.bytes(slots_ * chunk, MemoryKind::gradients);
  }

  [[nodiscard]] const OwnedRow& own() const { return owner(comm_.rank()); }

  void sum(const std::vector<SumTree<Tensor>::Sum>& mine, const std::vector<Tensor>& sums,
           float factor) {
    for (int64_t first = 0; first < longest_; first += kChunk) {
      places_.assign(nodes_.size(), {});
      std::byte* to = in_.bytes();
      for (size_t slot = 0; slot < slots_; ++slot)
        to = send(slot < mine.size() ? &mine[slot].value : nullptr, slot, first, to);
      add(first, sums, factor);
    }
  }

 private:
  [[nodiscard]] const OwnedRow& owner(int rank) const { return owners_[static_cast<size_t>(rank)]; }

  // The ranks' nodes in this slot, of a chunk; those of rank r come to lie at places_[r][slot].
  // Returns where the next slot begins.
  std::byte* send(const Tensor* mine, size_t slot, int64_t first, std::byte* to) {
    std::vector<size_t> out, in;
    int64_t packed = 0;
    for (const OwnedRow& owner : owners_) {
      const int64_t count = mine != nullptr ? owner.count_from(first) : 0;
      if (count > 0)
        owner.for_runs(first,
                       [&](size_t, int64_t in_tensor, int64_t, int64_t in_chunk, int64_t length) {
                         run_.execute(Copy{.y = values(out_.bytes(), packed + in_chunk, length),
                                           .x = values(mine->bytes(), in_tensor, length)});
                       });
      packed += count;
      out.push_back(bytes_of(count));
    }
    std::byte* next = to;
    for (size_t rank = 0; rank < nodes_.size(); ++rank) {
      in.push_back(slot < nodes_[rank].size() ? bytes_of(own().count_from(first)) : 0);
      places_[rank].push_back(next);
      next += in.back();
    }
    comm_.all_to_all(Traffic::gradients, {out_.bytes(), bytes_of(packed)}, out,
                     {to, static_cast<size_t>(next - to)}, in);
    return next;
  }

  // The tree over the nodes of all ranks, of a chunk.
  void add(int64_t first, const std::vector<Tensor>& sums, float factor) {
    const int64_t count = own().count_from(first);
    if (count == 0) return;
    const auto adding = [&](const View& a, const View& b) {
      run_.execute(Combine{.y = a, .x = b});
    };
    SumTree<View> tree;
    for (size_t rank = 0; rank < nodes_.size(); ++rank)
      for (size_t slot = 0; slot < nodes_[rank].size(); ++slot)
        tree.push(nodes_[rank][slot], values(places_[rank][slot], 0, count), adding);
    const View sum = tree.finish(adding);
    own().for_runs(first,
                   [&](size_t piece, int64_t, int64_t in_piece, int64_t in_chunk, int64_t length) {
                     run_.execute(Combine{.y = values(sums[piece].bytes(), in_piece, length),
                                          .x = values(sum.data, in_chunk, length),
                                          .a = factor,
                                          .b = 0});
                   });
  }

  Run& run_;
  Comm& comm_;
  std::span<const std::vector<TreeNode>> nodes_;
  std::vector<OwnedRow> owners_;
  int64_t longest_ = 0;  // elements of one owner
  size_t slots_ = 0;     // nodes of one rank
  Tensor out_, in_;
  std::vector<std::vector<std::byte*>> places_;
};

/// The scales of a tensor as one of their own, (1, count).
View scales_of(const View& tensor) {
  if (!tensor.has_scales()) return {};
  const int64_t count = tensor.scale_index(tensor.rows - 1, tensor.cols - 1) + 1;
  return {tensor.scales.data, *tensor.scales.element, 1, count, count};
}

}  // namespace

std::vector<Tensor> sum_at_owners(Run& run, Comm& comm, SumTree<Tensor>& mine,
                                  std::span<const std::vector<TreeNode>> nodes,
                                  std::span<const Piece> pieces, float factor) {
  if (comm.ranks() == 1) return {mine.finish(adding_tensors(run))};
  const int64_t cols = mine.sums().front().value.view().cols;
  std::vector<Tensor> sums;
  {
    Exchange exchange(run, comm, nodes, pieces, cols);
    for (const Piece& piece : exchange.own().pieces())
      sums.push_back(run.tensor(piece.rows, cols, fp32_format(), MemoryKind::gradients));
    if (!run.recording()) exchange.sum(mine.sums(), sums, factor);
  }
  mine.sums().clear();
  return sums;
}

void send_rows(Run& run, Comm& comm, const View& tensor, std::span<const Piece> pieces) {
  if (comm.ranks() == 1 || run.recording()) return;
  const View scales = scales_of(tensor);
  for (const Piece& piece : pieces) {
    comm.broadcast(Traffic::weights, bytes_of_rows(tensor, piece.first_row, piece.rows),
                   piece.owner);
    if (!tensor.has_scales()) continue;
    NG_CHECK(piece.rows == tensor.rows, piece.rows, tensor.rows);  // rows that share scales
    comm.broadcast(Traffic::scales, bytes_of_rows(scales, 0, scales.rows), piece.owner);
    if (float* level = tensor.scales.tensor)
      comm.broadcast(Traffic::scales, std::as_writable_bytes(std::span(level, 1)), piece.owner);
  }
}

}  // namespace ng
