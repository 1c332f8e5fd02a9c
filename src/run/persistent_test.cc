// What a tensor takes as it persists: known beforehand, and what the register then holds.
#include "run/persistent.h"

#include <gtest/gtest.h>

#include "run/backends.h"
#include "run/run.h"

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

TEST(StoredSpec, TheRegisterHoldsItsRowsAndTakesItsBytes) {
  for (const char* format : {"fp32", "bf16", "fp8_e4m3", "mxfp8_e4m3", "nvfp4", "int4"}) {
    ng::Run run(make_backend("ref", Threads{1}), 1);
    const size_t before = run.allocated_bytes();
    const StoredSpec what = spec("w", operand_of(format), 33, 47);
    (void)run.stored(what);
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
