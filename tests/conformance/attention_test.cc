// Attention of every backend against `ref`, of all keys before a query and of its document's.
#include "attention.h"

namespace ng::conformance::attention {
namespace {

TEST(Conformance, Attention) {
  for (const AttentionShape& shape : kAttentionShapes)
    for (const Storage storage : kStorages)
      for (const float size : {1.0f, 5.0f}) check({shape, storage, size});
}

// Shorter than a vector, than a tile, and longer.
TEST(Conformance, AttentionWithinDocuments) {
  for (const AttentionShape& shape : kAttentionShapes)
    for (const Storage storage : kStorages)
      for (const int64_t document : {1, 7, 40, 100}) check({shape, storage, 2.0f, document});
}

TEST(Conformance, AttentionWithBf16Probabilities) {
  for (const AttentionShape& shape : kAttentionShapes)
    for (const Storage storage : kStorages)
      for (const float size : {1.0f, 5.0f})
        for (const int64_t document : {0, 7, 100})
          check({shape, storage, size, document, Compute::bf16}, 3);
}

// Fibers are slow under sanitizers, where one of the four ways shows what is read and written.
TEST(Conformance, AttentionByMatrixUnits) {
  for (const AttentionShape& shape : kAttentionShapes)
    for (const int64_t window : {0, 20})
      for (const Compute probabilities : {Compute::fp32, Compute::bf16}) {
        if (shape.head_dim % 8 != 0) continue;
        if (kSanitized && (window != 0 || probabilities == Compute::fp32)) continue;
        check_units({with_window(shape, window), Storage::bf16, 3.0f, 50, probabilities});
      }
}

/// What tests of single values are done with: tensors and probabilities both FP32, or both BF16.
constexpr std::pair<Storage, Compute> kNumbers[] = {{Storage::fp32, Compute::fp32},
                                                    {Storage::bf16, Compute::bf16}};
/// Of BF16 such that matrix units take them.
AttentionShape with_heads_for(Storage storage, AttentionShape shape) {
  shape.head_dim = storage == Storage::bf16 ? 24 : 20;
  return shape;
}

Matrix rows_of(const Matrix& x, int64_t first, int64_t count) {
  Matrix part(count, x.cols());
  for (int64_t r = 0; r < count; ++r)
    for (int64_t c = 0; c < x.cols(); ++c) part.at(r, c) = x.at(first + r, c);
  return part;
}

TEST(Conformance, ADocumentIsAsItWereAlone) {
  const AttentionShape shape = one_sequence(50, 2, 1, 8);
  const Place ref{reference(), Storage::fp32};
  const Inputs packed({shape, Storage::fp32, 3.0f, 20});
  const Results whole = run(ref, packed, forward(ref, packed));
  for (const auto& [first, count] : {std::pair(0, 20), std::pair(20, 20), std::pair(40, 10)}) {
    AttentionShape own = shape;
    own.length = own.kv_length = own.kv_stride = count;
    Inputs alone({own, Storage::fp32, 3.0f});
    for (auto [to, from] : {std::pair(&alone.q, &packed.q), std::pair(&alone.k, &packed.k),
                            std::pair(&alone.v, &packed.v), std::pair(&alone.dout, &packed.dout)})
      *to = rows_of(*from, first, count);
    for (const auto& [name, matrix] : run(ref, alone, forward(ref, alone)))
      for (int64_t r = 0; r < count; ++r)
        for (int64_t c = 0; c < matrix.cols(); ++c)
          ASSERT_EQ(matrix.at(r, c), whole.at(name).at(first + r, c)) << name << ' ' << r;
  }
}

void expect_cached_equals_whole(const Target& target, const Inputs& x) {
  SCOPED_TRACE(fmt::format("{} {}", target.label(), text(x.c)));
  const Place with{backend_of(target), x.c.storage};
  const Forward at_once = forward(with, x);
  const Tensor q = with.activation(x.q), k = with.activation(x.k), v = with.activation(x.v);
  for (const int64_t first : {0, 1, 15, 16, 63, 64, 69}) {
    AttentionShape one = x.c.shape;
    one.length = 1;
    one.first = first;
    Tensor out = with.activation(Matrix(1, 48)), lse = with.fp32(Matrix(1, 2));
    with.execute(Attention{.out = out,
                           .lse = lse,
                           .q = ConstView(q).slice(first, 1),
                           .k = k,
                           .v = v,
                           .shape = one,
                           .probabilities = x.c.probabilities});
    const Matrix got = out.values();
    for (int64_t c = 0; c < 48; ++c)
      EXPECT_TRUE(same_bits(got.at(0, c), at_once.out.at(first, c))) << first << " " << c;
    EXPECT_TRUE(same_bits(lse.values().at(0, 1), at_once.lse.at(first, 1))) << first;
  }
}

// A query's result is a function of the keys it sees: one at a time, with a cache, gives the bits
// of the whole sequence at once.
TEST(Conformance, CachedAttentionEqualsWholeAttention) {
  const AttentionShape whole = one_sequence(70, 2, 1, 24);
  for (const int64_t window : {0, 1, 6, 16, 33, 64})
    for (const auto& [storage, probabilities] : kNumbers) {
      const Inputs x({with_window(whole, window), storage, 3, 0, probabilities});
      for (const Target& target : targets_of(storage)) expect_cached_equals_whole(target, x);
    }
}

// What a query does not see cannot reach it, not even as 0 · NaN; the first NaN key reaches every
// query from its own position on.
TEST(Conformance, AttentionDoesNotSeeTheFuture) {
  const AttentionShape s = one_sequence(90, 1, 1, 20);
  for (const auto& [storage, probabilities] : kNumbers)
    for (const int64_t bad : {1, 13, 64, 77})
      for (const bool in_values : {false, true}) {
        Inputs x({with_heads_for(storage, s), storage, 2, 0, probabilities});
        (in_values ? x.v : x.k).at(bad, 7) = std::numeric_limits<float>::quiet_NaN();
        const Forward known = forward({reference(), storage}, x);
        for (const Target& target : targets_of(storage)) {
          SCOPED_TRACE(
              fmt::format("{} NaN {} {}", target.label(), in_values ? "value" : "key", bad));
          const Results got = run({backend_of(target), storage}, x, known);
          for (int64_t i = 0; i < s.length; ++i) {
            EXPECT_EQ(std::isnan(got.at("out").at(i, 7)), i >= bad) << i;
            EXPECT_EQ(std::isnan(got.at("dq").at(i, 0)), i >= bad) << i;
          }
        }
      }
}

// A query that is not a number spoils the gradients of the keys it sees and of no others.
TEST(Conformance, AttentionBackwardKeepsNanToTheKeysSeen) {
  const AttentionShape s = one_sequence(90, 1, 1, 20);
  for (const auto& [storage, probabilities] : kNumbers)
    for (const int64_t bad : {0, 12, 63, 70}) {
      Inputs x({with_heads_for(storage, s), storage, 2, 0, probabilities});
      x.q.at(bad, 7) = std::numeric_limits<float>::quiet_NaN();
      const Forward known = forward({reference(), storage}, x);
      for (const Target& target : targets_of(storage)) {
        SCOPED_TRACE(fmt::format("{} NaN query {}", target.label(), bad));
        const Results got = run({backend_of(target), storage}, x, known);
        for (int64_t j = 0; j < s.length; ++j) {
          EXPECT_EQ(std::isnan(got.at("dk").at(j, 7)), j <= bad) << j;
          EXPECT_EQ(std::isnan(got.at("dv").at(j, 0)), j <= bad) << j;
        }
      }
    }
}

}  // namespace
}  // namespace ng::conformance::attention
