// Logits of a q and a k that were made for it, and of attention as a backend does it.
#include "study/attention_logits.h"

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <limits>
#include <vector>

#include "run/backends.h"
#include "run/transfer.h"

namespace ng::study {
namespace {

using Values = std::vector<float>;

constexpr AttentionShape kShape{.sequences = 1,
                                .length = 2,
                                .kv_length = 2,
                                .kv_stride = 2,
                                .first = 0,
                                .heads = 1,
                                .kv_heads = 1,
                                .head_dim = 4};

// q₀·k₀ = 2, q₁·k₀ = -6, q₁·k₁ = 1, and q₀·k₁ = 300, which the mask hides; √4 = 2.
TEST(LargestLogit, IsThatOfThePairsThatAttentionSees) {
  const Values q = {2, 0, 0, 100, -6, 1, 0, 0};
  const Values k = {1, 0, 0, 0, 0, 1, 5, 3};
  EXPECT_EQ(largest_logit(q, k, kShape), 3);
  AttentionShape later = kShape;  // the same queries and keys, one position on
  later.length = 1;
  later.first = 1;
  EXPECT_EQ(largest_logit(Values(q.begin(), q.begin() + 4), k, later), 150);
  AttentionShape alone = kShape;
  alone.window = 1;
  EXPECT_EQ(largest_logit(q, k, alone), 1) << "each sees itself";
}

// Four heads of one value read two heads of keys: 0 and 1 the first, 2 and 3 the second.
TEST(LargestLogit, GroupsHeads) {
  AttentionShape shape = kShape;
  shape.length = shape.kv_length = shape.kv_stride = 1;
  shape.heads = 4;
  shape.kv_heads = 2;
  shape.head_dim = 1;
  EXPECT_EQ(largest_logit(Values{1, 2, 3, 4}, Values{100, 1}, shape), 200);
  EXPECT_EQ(largest_logit(Values{1, 2, 3, 4}, Values{1, 100}, shape), 400);
}

// Rows between two sequences' keys hold nothing.
TEST(LargestLogit, GoesThroughSequences) {
  AttentionShape shape = kShape;
  shape.sequences = 2;
  shape.length = shape.kv_length = 1;
  shape.head_dim = 1;
  EXPECT_EQ(largest_logit(Values{1, 1}, Values{2, 9, -3, 9}, shape), 3);
}

TEST(LargestLogit, IsNanWhereOneIs) {
  Values q(8, 1), k(8, 1);
  EXPECT_EQ(largest_logit(q, k, kShape), 2);
  q[0] = std::numeric_limits<float>::quiet_NaN();
  EXPECT_TRUE(std::isnan(largest_logit(q, k, kShape)));
}

// In FP32 and in BF16, q and k being columns of one matrix as in a model; only between start and
// finish, and to the same output.
TEST(LogitWatch, LooksAtAttention) {
  for (const ElementFormat* element : {&fp32_format(), &bf16_format()}) {
    auto watched = std::make_unique<LogitWatch>(make_backend("cpu", {1}));
    LogitWatch& watch = *watched;
    const size_t bytes = bytes_of(*element, 2 * 12);
    std::byte* memory = watch.allocate(bytes);
    std::byte* outputs = watch.allocate(bytes);
    std::byte* sums = watch.allocate(2 * sizeof(float));
    const View qkv(memory, *element, 2, 12, 12);
    upload_row(watch, qkv, 0, Values{2, 0, 0, 100, 1, 0, 0, 0, 1, 2, 3, 4});
    upload_row(watch, qkv, 1, Values{-6, 1, 0, 0, 0, 1, 5, 3, 5, 6, 7, 8});
    const Attention attention{.out = View(outputs, *element, 2, 4, 4),
                              .lse = View(sums, fp32_format(), 2, 1, 1),
                              .q = qkv.columns(0, 4),
                              .k = qkv.columns(4, 4),
                              .v = qkv.columns(8, 4),
                              .shape = kShape};
    watch.execute(attention);
    const Values unwatched = download(watch, attention.out);
    EXPECT_EQ(unwatched[0], 1);  // the first query sees the first value alone
    EXPECT_EQ(watch.finish(), 0);
    watch.start();
    watch.execute(attention);
    EXPECT_EQ(watch.finish(), 3);
    EXPECT_EQ(download(watch, attention.out), unwatched);
    watch.start();
    EXPECT_EQ(watch.finish(), 0);
    watch.release(memory, bytes);
    watch.release(outputs, bytes);
    watch.release(sums, 2 * sizeof(float));
  }
}

}  // namespace
}  // namespace ng::study
