// What every transport between ranks must do, as one of its ranks checks it.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <memory>
#include <numeric>
#include <vector>

#include "base/error.h"
#include "comm/agreement.h"
#include "comm/comm.h"

namespace ng::comm_cases {

using Bytes = std::vector<std::byte>;

/// Bytes that tell sender, receiver and place.
inline Bytes message(int from, int to, size_t bytes) {
  Bytes message(bytes);
  for (size_t i = 0; i < bytes; ++i)
    message[i] = static_cast<std::byte>(31 * from + 7 * to + static_cast<int>(i % 251));
  return message;
}

inline uint64_t sent(const Comm& comm, Traffic kind) {
  return comm.sent()[static_cast<size_t>(kind)];
}

/// Rank i sends bytes(i, k) bytes to rank k.
template <class BytesOf>
void exchange(Comm& comm, const BytesOf& bytes) {
  Bytes out, wanted;
  std::vector<size_t> out_bytes, in_bytes;
  for (int rank = 0; rank < comm.ranks(); ++rank) {
    const Bytes to = message(comm.rank(), rank, bytes(comm.rank(), rank));
    const Bytes from = message(rank, comm.rank(), bytes(rank, comm.rank()));
    out.insert(out.end(), to.begin(), to.end());
    wanted.insert(wanted.end(), from.begin(), from.end());
    out_bytes.push_back(to.size());
    in_bytes.push_back(from.size());
  }
  const uint64_t before = sent(comm, Traffic::gradients);
  Bytes in(wanted.size());
  comm.all_to_all(Traffic::gradients, out, out_bytes, in, in_bytes);
  EXPECT_EQ(in, wanted);
  EXPECT_EQ(sent(comm, Traffic::gradients) - before,
            out.size() - out_bytes[static_cast<size_t>(comm.rank())]);
}

inline void exchanges(Comm& comm) {
  exchange(comm, [](int from, int to) { return static_cast<size_t>((3 * from + 5 * to + 1) % 7); });
  exchange(comm, [](int from, int to) { return static_cast<size_t>(to == from + 1 ? 9 : 0); });
  exchange(comm, [](int /*from*/, int /*to*/) { return size_t{0}; });
  exchange(comm,
           [](int from, int /*to*/) { return size_t{1'000'003} + static_cast<size_t>(from); });
}

/// The last rank has none; `scale` makes the others' longer.
inline void gathers(Comm& comm, size_t scale) {
  std::vector<size_t> bytes;
  Bytes wanted;
  for (int rank = 0; rank < comm.ranks(); ++rank) {
    bytes.push_back(scale * static_cast<size_t>(comm.ranks() - 1 - rank));
    const Bytes theirs = message(rank, 0, bytes.back());
    wanted.insert(wanted.end(), theirs.begin(), theirs.end());
  }
  const auto me = static_cast<size_t>(comm.rank());
  const Bytes mine = message(comm.rank(), 0, bytes[me]);
  const uint64_t before = sent(comm, Traffic::weights);
  Bytes all(wanted.size());
  comm.all_gather(Traffic::weights, mine, all, bytes);
  EXPECT_EQ(all, wanted);
  EXPECT_EQ(sent(comm, Traffic::weights) - before, mine.size() * (bytes.size() - 1));
  Bytes in_place(wanted.size());
  const size_t first = std::accumulate(bytes.begin(), bytes.begin() + comm.rank(), size_t{0});
  const std::span<std::byte> place = std::span(in_place).subspan(first, bytes[me]);
  std::copy(mine.begin(), mine.end(), place.begin());
  comm.all_gather(Traffic::weights, place, in_place, bytes);
  EXPECT_EQ(in_place, wanted);
}

inline void broadcasts(Comm& comm) {
  for (int root = 0; root < comm.ranks(); ++root)
    for (const size_t size : {size_t{0}, size_t{5}, size_t{200'001}}) {
      const Bytes wanted = message(root, 0, size);
      Bytes bytes = comm.rank() == root ? wanted : Bytes(size);
      const uint64_t before = sent(comm, Traffic::files);
      comm.broadcast(Traffic::files, bytes, root);
      EXPECT_EQ(bytes, wanted);
      const size_t others = static_cast<size_t>(comm.ranks() - 1);
      EXPECT_EQ(sent(comm, Traffic::files) - before, comm.rank() == root ? size * others : 0);
    }
}

/// From rank to rank, in the order in which they were sent.
inline void messages(Comm& comm) {
  const size_t sizes[] = {3, 150'000, 0, 1};
  const int me = comm.rank();
  const uint64_t before = sent(comm, Traffic::activations);
  for (const size_t size : sizes) {
    if (me == 0) break;
    Bytes bytes(size);
    comm.receive(bytes, me - 1);
    EXPECT_EQ(bytes, message(me - 1, me, size));
  }
  if (me + 1 == comm.ranks()) return;
  for (const size_t size : sizes)
    comm.send(Traffic::activations, message(me, me + 1, size), me + 1);
  EXPECT_EQ(sent(comm, Traffic::activations) - before, 150'004U);
}

inline void reductions(Comm& comm) {
  const int ranks = comm.ranks(), me = comm.rank();
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const float infinity = std::numeric_limits<float>::infinity();
  std::vector<float> largest = {-static_cast<float>(me) - 1, static_cast<float>(me),
                                me == ranks - 1 ? nan : infinity, me == 0 ? nan : 3.0f, -infinity};
  comm.max(largest);
  EXPECT_EQ(largest[0], -1);
  EXPECT_EQ(largest[1], static_cast<float>(ranks - 1));
  EXPECT_TRUE(std::isnan(largest[2]));
  EXPECT_TRUE(std::isnan(largest[3]));
  EXPECT_EQ(largest[4], -infinity);

  std::vector<uint64_t> counts = {1, static_cast<uint64_t>(me) << 40};
  comm.sum(counts);
  EXPECT_EQ(counts[0], static_cast<uint64_t>(ranks));
  EXPECT_EQ(counts[1], static_cast<uint64_t>(ranks * (ranks - 1) / 2) << 40);

  // 2^53 + 1 is no FP64 number, so that the order of ranks shows.
  const auto term = [&](int rank) { return rank == 0 ? 0x1p53 : rank == ranks - 1 ? -0x1p53 : 1; };
  double wanted = term(0);
  for (int rank = 1; rank < ranks; ++rank) wanted += term(rank);
  std::vector<double> sums = {term(me), me == 0 ? std::nan("") : 1};
  comm.sum(sums);
  EXPECT_EQ(sums[0], wanted);
  EXPECT_TRUE(std::isnan(sums[1]));
  comm.max(std::span<float>());
}

/// Ranks of `part`, as ranks of `comm`.
inline std::vector<int> members(const Comm& comm, Comm& part) {
  std::vector<int> members(static_cast<size_t>(part.ranks()));
  const int me = comm.rank();
  const std::vector<size_t> bytes(members.size(), sizeof me);
  part.all_gather(Traffic::control, std::as_bytes(std::span(&me, 1)),
                  std::as_writable_bytes(std::span(members)), bytes);
  return members;
}

/// Rows and columns of a grid two ranks wide, and pairs of one rank each.
inline void splits(Comm& comm) {
  const BytesByTraffic before = comm.sent();
  const int me = comm.rank();
  const std::unique_ptr<Comm> row = comm.split(me / 2), column = comm.split(me % 2);
  std::vector<int> in_row, in_column;
  for (int rank = 0; rank < comm.ranks(); ++rank) {
    if (rank / 2 == me / 2) in_row.push_back(rank);
    if (rank % 2 == me % 2) in_column.push_back(rank);
  }
  EXPECT_EQ(members(comm, *row), in_row);
  EXPECT_EQ(members(comm, *column), in_column);
  exchanges(*row);
  const std::unique_ptr<Comm> alone = row->split(row->rank());
  EXPECT_EQ(members(comm, *alone), std::vector<int>{me});
  EXPECT_EQ(comm.sent(), before) << "groups count their own bytes";
  EXPECT_EQ(sent(*column, Traffic::control), sizeof(int) * (in_column.size() - 1));
}

/// Everyone says who is not like rank 0.
inline void differences(Comm& comm) {
  require_same(comm, "the recipe", "mxfp4");
  require_same(comm, "the recipe", "");
  if (comm.ranks() == 1) return;
  try {
    require_same(comm, "the recipe", comm.rank() == 1 ? "fp8-lm" : "mxfp4");
    ADD_FAILURE() << "rank 1 differs";
  } catch (const Error& error) {
    EXPECT_STREQ(
        error.what(),
        "rank 1: the recipe: \"fp8-lm\", not \"mxfp4\" as rank 0's: the same on all ranks");
  }
}

inline void everything(Comm& comm) {
  exchanges(comm);
  gathers(comm, 3);
  gathers(comm, 100'001);
  broadcasts(comm);
  messages(comm);
  reductions(comm);
  splits(comm);
  differences(comm);
  comm.barrier();
}

}  // namespace ng::comm_cases
