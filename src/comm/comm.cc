#include "comm/comm.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>
#include <vector>

#include "base/error.h"
#include "comm/planned_rank.h"

namespace ng {
namespace {

size_t total(BytesByRank bytes) { return std::accumulate(bytes.begin(), bytes.end(), size_t{0}); }

void copy(std::span<const std::byte> from, std::span<std::byte> to) {
  if (!from.empty() && to.data() != from.data()) std::memmove(to.data(), from.data(), from.size());
}

/// A rank whose others, where it has any, do not exist: everything stays where it is.
class LoneRank : public Comm {
 public:
  LoneRank(int rank, int ranks) : Comm(rank, ranks) {}
  [[nodiscard]] std::unique_ptr<Comm> split(int /*color*/) override {
    return planned_rank(rank(), ranks());
  }

 private:
  void do_exchange(std::span<const Outgoing> out, std::span<const Incoming> in) override {
    NG_CHECK((out.empty() && in.empty()) || ranks() > 1, out.size(), in.size());
  }
  void do_all_gather(std::span<const std::byte> mine, std::span<std::byte> all,
                     BytesByRank /*bytes*/) override {
    if (ranks() == 1) copy(mine, all);
  }
  void do_broadcast(std::span<std::byte> /*bytes*/, int /*root*/) override {}
  void do_send(std::span<const std::byte> /*bytes*/, int to) override { NG_CHECK(ranks() > 1, to); }
  void do_receive(std::span<std::byte> /*bytes*/, int from) override {
    NG_CHECK(ranks() > 1, from);
  }
  void do_barrier() override {}
};

}  // namespace

std::unique_ptr<Comm> one_rank() { return planned_rank(0, 1); }

std::unique_ptr<Comm> planned_rank(int rank, int ranks) {
  return std::make_unique<LoneRank>(rank, ranks);
}

Comm::Waiting Comm::waiting() const {
  using std::chrono::steady_clock;
  const steady_clock::time_point since{steady_clock::duration(since_.load())};
  return {
      .primitive = primitive_.load(), .time = steady_clock::now() - since, .step = step_.load()};
}

void Comm::all_to_all(Traffic kind, std::span<const std::byte> out, BytesByRank out_bytes,
                      std::span<std::byte> in, BytesByRank in_bytes) {
  const auto me = static_cast<size_t>(rank_), all = static_cast<size_t>(ranks_);
  NG_CHECK(out_bytes.size() == all && in_bytes.size() == all && out_bytes[me] == in_bytes[me] &&
               out.size() == total(out_bytes) && in.size() == total(in_bytes),
           out.size(), in.size());
  std::vector<Outgoing> outgoing;
  std::vector<Incoming> incoming;
  std::span<const std::byte> own;
  for (size_t rank = 0; rank < all; ++rank) {
    const std::span<const std::byte> piece = out.first(out_bytes[rank]);
    out = out.subspan(piece.size());
    if (rank == me)
      own = piece;
    else
      outgoing.push_back({static_cast<int>(rank), kind, piece});
  }
  for (size_t rank = 0; rank < all; ++rank) {
    const std::span<std::byte> piece = in.first(in_bytes[rank]);
    in = in.subspan(piece.size());
    if (rank == me)
      copy(own, piece);
    else
      incoming.push_back({static_cast<int>(rank), piece});
  }
  exchange(outgoing, incoming);
}

void Comm::exchange(std::span<const Outgoing> out, std::span<const Incoming> in) {
  for (const Outgoing& message : out) {
    NG_CHECK(message.to >= 0 && message.to < ranks_ && message.to != rank_, message.to);
    count(message.kind, message.bytes.size());
  }
  const In in_primitive(*this, "exchange");
  do_exchange(out, in);
}

void Comm::all_gather(Traffic kind, std::span<const std::byte> mine, std::span<std::byte> all,
                      BytesByRank bytes) {
  NG_CHECK(bytes.size() == static_cast<size_t>(ranks_) && all.size() == total(bytes) &&
               mine.size() == bytes[static_cast<size_t>(rank_)],
           mine.size(), all.size());
  count(kind, mine.size() * static_cast<size_t>(ranks_ - 1));
  const In in_primitive(*this, "all_gather");
  do_all_gather(mine, all, bytes);
}

void Comm::broadcast(Traffic kind, std::span<std::byte> bytes, int root) {
  NG_CHECK(root >= 0 && root < ranks_, root);
  if (rank_ == root) count(kind, bytes.size() * static_cast<size_t>(ranks_ - 1));
  const In in_primitive(*this, "broadcast");
  do_broadcast(bytes, root);
}

void Comm::send(Traffic kind, std::span<const std::byte> bytes, int to) {
  NG_CHECK(to >= 0 && to < ranks_ && to != rank_, to);
  count(kind, bytes.size());
  const In in_primitive(*this, "send");
  do_send(bytes, to);
}

void Comm::receive(std::span<std::byte> bytes, int from) {
  NG_CHECK(from >= 0 && from < ranks_ && from != rank_, from);
  const In in_primitive(*this, "receive");
  do_receive(bytes, from);
}

void Comm::barrier() {
  const In in_primitive(*this, "barrier");
  do_barrier();
}

// Gathered and merged in the order of ranks, so that every rank has the same bits.
template <class Value, class Merge>
void Comm::reduce(std::span<Value> values, const Merge& merge) {
  if (ranks_ == 1 || values.empty()) return;
  std::vector<Value> all(values.size() * static_cast<size_t>(ranks_));
  const std::vector<size_t> bytes(static_cast<size_t>(ranks_), values.size_bytes());
  all_gather(Traffic::control, std::as_bytes(values), std::as_writable_bytes(std::span(all)),
             bytes);
  for (size_t i = 0; i < values.size(); ++i) {
    Value merged = all[i];
    for (size_t at = i + values.size(); at < all.size(); at += values.size())
      merged = merge(merged, all[at]);
    values[i] = merged;
  }
}

void Comm::max(std::span<float> values) {
  reduce(values, [](float a, float b) { return std::isnan(a) || a > b ? a : b; });
}

void Comm::sum(std::span<uint64_t> values) {
  reduce(values, [](uint64_t a, uint64_t b) { return a + b; });
}

void Comm::sum(std::span<double> values) {
  reduce(values, [](double a, double b) { return a + b; });
}

}  // namespace ng
