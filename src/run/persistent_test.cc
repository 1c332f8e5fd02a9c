// What a tensor takes as it persists: known beforehand, and what the register then holds.
#include "run/persistent.h"

#include <gtest/gtest.h>

#include "run/backends.h"
#include "run/run.h"
#include "run/transfer.h"

namespace ng {
namespace {

StoredSpec spec(const char* name, const Operand& cast, int64_t rows, int64_t cols) {
  return {{.name = name, .owner = "w", .kind = MemoryKind::moments, .rows = rows, .cols = cols},
          cast};
}

TEST(StoredSpec, BytesByHand) {
  EXPECT_EQ(spec("w", operand_of("fp32"), 3, 7).bytes(), 128u);     // 84
  EXPECT_EQ(spec("w", operand_of("bf16"), 1, 1).bytes(), 64u);      // 2
  EXPECT_EQ(spec("w", operand_of("mxfp4"), 10, 64).bytes(), 384u);  // 320, 20 scales
  // 10 rows of 32 bytes, 40 scales, one for all
  EXPECT_EQ(spec("w", operand_of("nvfp4"), 10, 64).bytes(), 320u + 64 + 64);
  // Rows end with whole bytes: 5 values of 4 bits take 3.
  EXPECT_EQ(spec("w", operand_of("mxfp4"), 64, 5).bytes(), 192u + 64);
}

/// Of moments alone. [linear.md 9]
std::vector<Operand> moment_casts() {
  Operand map = operand_of("int8"), expand = operand_of("fp8_e4m3"), parts = operand_of("bf16");
  map.block = {.kind = Block::Kind::tile, .rows = 1, .cols = 256};
  map.map = CodeMap::dynamic;
  expand.block = {.kind = Block::Kind::tile, .rows = 1, .cols = 128};
  expand.expand = true;
  parts.parts = 2;
  return {map, expand, parts};
}

TEST(StoredSpec, BytesOfMomentsByHand) {
  const std::vector<Operand> casts = moment_casts();
  EXPECT_EQ(spec("m", casts[0], 64, 300).bytes(), 64u * 300 + 64 * 2 * 4);
  EXPECT_EQ(spec("m", casts[1], 64, 300).bytes(), 64u * 300 + 3 * 64 * 3 * 4);
  EXPECT_EQ(spec("m", casts[2], 64, 300).bytes(), 2u * 64 * 300 * 2);
}

TEST(StoredSpec, TheRegisterHoldsItsRowsAndTakesItsBytes) {
  std::vector<Operand> casts = moment_casts();
  for (const char* format : {"fp32", "bf16", "fp8_e4m3", "mxfp8_e4m3", "nvfp4", "int4"})
    casts.push_back(operand_of(format));
  for (const Operand& cast : casts) {
    const std::string format = describe(cast);
    ng::Run run(make_backend("ref", Threads{1}), 1);
    const size_t before = run.allocated_bytes();
    const StoredSpec what = spec("w", cast, 33, 47);
    const Stored tensor = run.stored(what);
    EXPECT_EQ(download(run.backend(), tensor.view), std::vector<float>(33 * 47)) << format;
    EXPECT_EQ(run.allocated_bytes() - before, what.bytes()) << format;
    const std::vector<PersistentSpec> rows = what.rows();
    ASSERT_EQ(run.persistents().size(), rows.size() + 1) << format << ", beside a counter";
    for (size_t i = 0; i < rows.size(); ++i) {
      EXPECT_EQ(run.persistents()[i + 1].spec.name, rows[i].name);
      EXPECT_EQ(run.persistents()[i + 1].spec.element, rows[i].element);
    }
  }
}

TEST(StoredSpec, APartHasTheRowsOfItsOwner) {
  const StoredSpec whole = spec("w", operand_of("fp32"), 512, 16);
  EXPECT_EQ(whole.part(256, 128, 512).spec.rows, 128);
  EXPECT_EQ(whole.part(256, 128, 512).spec.first_row, 256);
  EXPECT_EQ(whole.part(256, 128, 512).bytes() * 4, whole.bytes());
  const StoredSpec blocks = spec("w", operand_of("mxfp8_e4m3"), 512, 64);
  EXPECT_EQ(blocks.part(256, 128, 512).rows()[1].first_row, 256);
  // One value for each of 8 heads of 64 rows: 128 rows have two of them, 32 a part of one.
  const StoredSpec of_heads = spec("w", operand_of("fp32"), 8, 1);
  EXPECT_EQ(of_heads.part(256, 128, 512).spec.rows, 2);
  EXPECT_EQ(of_heads.part(0, 32, 512).spec.rows, 1);
}

}  // namespace
}  // namespace ng
