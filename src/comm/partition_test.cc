// Pieces and owners against an independent program (tests/golden/fp8lm/partition) and by hand.
#include "comm/partition.h"

#include <gtest/gtest.h>

#include "comm/traffic.h"
#include "support/golden_file.h"

namespace ng {
namespace {

using Shard = GradientRecipe::Shard;
using Integers = std::vector<int64_t>;

Integers owners_of(const Partition& parts) {
  Integers owners;
  for (const Piece& piece : parts.pieces) owners.push_back(piece.owner);
  return owners;
}

Integers pieces_of(const Partition& parts) {
  Integers rows;
  for (const Piece& piece : parts.pieces)
    rows.insert(rows.end(), {piece.tensor, piece.first_row, piece.rows});
  return rows;
}

/// Gradients and weights in each rank's traffic.
Integers payload_of(const std::vector<BytesByTraffic>& sent) {
  Integers bytes;
  for (const BytesByTraffic& rank : sent)
    bytes.push_back(static_cast<int64_t>(rank[static_cast<size_t>(Traffic::gradients)] +
                                         rank[static_cast<size_t>(Traffic::weights)]));
  return bytes;
}

/// The tensors of one model of the file.
struct GoldenModel {
  GoldenModel(const GoldenFile& file, const std::string& name) {
    const Integers rows = file.integers(name + ".rows"), cols = file.integers(name + ".cols");
    const Integers wide = file.integers(name + ".wide");
    for (size_t t = 0; t < rows.size(); ++t) {
      sizes.push_back({rows[t], cols[t]});
      const bool is_wide = wide[t] != 0;
      sent.push_back({.size = sizes.back(),
                      .gradient = operand_of(is_wide ? "fp32" : "fp8_e4m3"),
                      .weight = operand_of(is_wide ? "bf16" : "fp8_e4m3")});
    }
  }
  std::vector<MatrixSize> sizes;
  std::vector<SentTensor> sent;
};

TEST(Partition, PiecesOwnersLoadsAndBytesAreThoseOfTheGoldenFile) {
  const GoldenFile file("fp8lm/partition");
  int counted = 0;
  for (const auto& [name, of_case] : file.cases().items()) {
    const size_t dot = name.find(".n");
    if (dot == std::string::npos) continue;
    SCOPED_TRACE(name);
    const GoldenModel model(file, name.substr(0, dot));
    const int ranks = std::stoi(name.substr(dot + 2));
    const Partition whole = partition(model.sizes, ranks, Shard::tensor);
    EXPECT_EQ(owners_of(whole), file.integers(name + ".tensor.rank"));
    EXPECT_EQ(whole.loads, file.integers(name + ".tensor.load"));
    EXPECT_EQ(payload_of(traffic_by_rank(whole, model.sent)),
              file.integers(name + ".tensor.bytes_sent"));
    // As the file prints it, in four digits.
    EXPECT_NEAR(whole.balance(), of_case["balance_tensor"].get<double>(), 0.5e-4);
    const Partition rows = partition(model.sizes, ranks, Shard::flat);
    EXPECT_EQ(pieces_of(rows), file.integers(name + ".rows.piece"));
    EXPECT_EQ(owners_of(rows), file.integers(name + ".rows.rank"));
    EXPECT_EQ(rows.loads, file.integers(name + ".rows.load"));
    EXPECT_EQ(payload_of(traffic_by_rank(rows, model.sent)),
              file.integers(name + ".rows.bytes_sent"));
    EXPECT_NEAR(rows.balance(), of_case["balance_rows"].get<double>(), 0.5e-4);
    ++counted;
  }
  EXPECT_EQ(counted, 7);
}

TEST(Partition, LargestFirstToTheLeastLoadedAndTiesToTheFirst) {
  const MatrixSize sizes[] = {{1, 4}, {1, 6}, {1, 4}, {1, 6}, {1, 5}};
  const Partition parts = partition(sizes, 2, Shard::tensor);
  // 6 -> rank 0, 6 -> rank 1, 5 -> 0 (tie), 4 -> 1, 4 -> 1 (10 < 11).
  EXPECT_EQ(owners_of(parts), (Integers{1, 0, 1, 1, 0}));
  EXPECT_EQ(parts.loads, (Integers{11, 14}));
  EXPECT_EQ(parts.balance(), 12.5 / 14);
}

TEST(Partition, CutsWhatIsAboveTheMeanIntoRowsThatBlocksDivide) {
  // 4 ranks, 204,801 elements: mean 51,201, a quarter of it 12,800 = 200 rows of 64 -> 128.
  const MatrixSize sizes[] = {{3200, 64}, {1, 1}};
  const Partition parts = partition(sizes, 4, Shard::flat);
  ASSERT_EQ(parts.pieces.size(), 26u);
  for (size_t i = 0; i < 25; ++i) {
    EXPECT_EQ(parts.pieces[i].first_row, static_cast<int64_t>(128 * i));
    EXPECT_EQ(parts.pieces[i].rows, 128);
  }
  EXPECT_EQ(parts.pieces.back(), (Piece{.tensor = 1, .first_row = 0, .rows = 1, .owner = 1}));
}

TEST(Partition, NeverCutsBelow128RowsAndNotWhatIsAtTheMean) {
  const MatrixSize wide[] = {{300, 1000}};
  const Partition parts = partition(wide, 100, Shard::flat);
  EXPECT_EQ(pieces_of(parts), (Integers{0, 0, 128, 0, 128, 128, 0, 256, 44}));
  const MatrixSize equal[] = {{256, 8}, {256, 8}};
  EXPECT_EQ(partition(equal, 2, Shard::flat).pieces.size(), 2u);
}

TEST(Partition, OneRankOwnsEverythingAndMoreRanksThanPiecesOwnNothing) {
  const MatrixSize sizes[] = {{2, 3}, {1, 5}};
  EXPECT_EQ(partition(sizes, 1, Shard::flat).loads, (Integers{11}));
  EXPECT_EQ(partition(sizes, 1, Shard::flat).balance(), 1);
  EXPECT_EQ(partition(sizes, 4, Shard::tensor).loads, (Integers{6, 5, 0, 0}));
  EXPECT_EQ(partition({}, 3, Shard::flat).balance(), 1);
}

// Of all its rows: none is lost and none has two owners.
TEST(Partition, EveryRowHasOneOwnerAt1024Ranks) {
  std::vector<MatrixSize> sizes = {{51200, 12288}, {2048, 12288}};
  for (int block = 0; block < 96; ++block)
    sizes.insert(
        sizes.end(),
        {{36864, 12288}, {1, 36864}, {12288, 12288}, {49152, 12288}, {12288, 49152}, {1, 12288}});
  const Partition parts = partition(sizes, 1024, Shard::flat);
  std::vector<int64_t> next(sizes.size());
  std::vector<int64_t> loads(1024);
  for (const Piece& piece : parts.pieces) {
    const auto t = static_cast<size_t>(piece.tensor);
    ASSERT_EQ(piece.first_row, next[t]);
    next[t] += piece.rows;
    loads[static_cast<size_t>(piece.owner)] += piece.rows * sizes[t].cols;
  }
  for (size_t t = 0; t < sizes.size(); ++t) EXPECT_EQ(next[t], sizes[t].rows) << t;
  EXPECT_EQ(loads, parts.loads);
  EXPECT_GT(parts.balance(), 0.8) << "pieces are at most a quarter of the mean";
}

}  // namespace
}  // namespace ng
