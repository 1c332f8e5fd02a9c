// Attention with windows: of every backend against `ref`, and against what a window means.
#include "attention.h"

namespace ng::conformance::attention {
namespace {

// Shorter than a vector, of one, than a tile, of one, and longer; with documents that begin within
// the window, and before it.
TEST(Conformance, AttentionWithinWindows) {
  constexpr int kCardEvery = 7;  // all windows, storages and documents, each with some shapes
  for (const AttentionShape& shape : kAttentionShapes)
    for (const Storage storage : kStorages)
      for (const int64_t window : {1, 5, 16, 40, 64, 100})
        for (const int64_t document : {0, 23})
          check({with_window(shape, window), storage, 2.0f, document}, kCardEvery);
}

TEST(Conformance, AttentionWithBf16ProbabilitiesWithinWindows) {
  constexpr int kCardEvery = 7;
  for (const AttentionShape& shape : kAttentionShapes)
    for (const int64_t window : {1, 5, 16, 40, 64, 100})
      for (const int64_t document : {0, 23})
        check({with_window(shape, window), Storage::bf16, 2.0f, document, Compute::bf16},
              kCardEvery);
}

constexpr AttentionShape kLong{.sequences = 2,
                               .length = 150,
                               .kv_length = 150,
                               .kv_stride = 150,
                               .first = 0,
                               .heads = 2,
                               .kv_heads = 1,
                               .head_dim = 20};

void expect_same(const Results& got, const Results& want) {
  for (const auto& [name, matrix] : want)
    for (int64_t r = 0; r < matrix.rows(); ++r)
      for (int64_t c = 0; c < matrix.cols(); ++c)
        ASSERT_TRUE(same_bits(got.at(name).at(r, c), matrix.at(r, c))) << name << ' ' << r;
}

/// Each target and `ref`.
void on_every_place(const std::function<void(const Place&)>& test) {
  test({reference()});
  for (const Target& target : targets_without_units()) {
    SCOPED_TRACE(target.label());
    test({backend_of(target)});
  }
}

TEST(Conformance, AWindowAsLongAsTheSequenceHidesNothing) {
  const Inputs full({kLong, Storage::fp32, 3});
  const Forward known = forward({reference()}, full);
  on_every_place([&](const Place& with) {
    const Results want = run(with, full, known);
    for (const int64_t window : {int64_t{150}, int64_t{151}, INT64_MAX})
      expect_same(run(with, Inputs({with_window(kLong, window), Storage::fp32, 3}), known), want);
  });
}

// q_idx - window < kv_idx of transformers, as the first key of each query: what documents give.
TEST(Conformance, AWindowIsTheLastKeysOfAQuery) {
  for (const int64_t window : {1, 4, 17, 64, 70, 149}) {
    const Inputs x({with_window(kLong, window), Storage::fp32, 3});
    Inputs same({kLong, Storage::fp32, 3});
    for (int64_t row = 0; row < x.q.rows(); ++row) {
      int64_t first = 0;
      while (first <= row % kLong.length - window) ++first;
      same.first_keys.push_back(static_cast<int32_t>(first));
    }
    const Forward known = forward({reference()}, same);
    on_every_place(
        [&](const Place& with) { expect_same(run(with, x, known), run(with, same, known)); });
  }
}

// A key or value that is no number reaches the queries whose window holds it and no others, not
// even as 0 · NaN; so does a query with the keys of its window.
TEST(Conformance, ANanStaysWithinItsWindow) {
  const AttentionShape s = with_window(kLong, 21);
  const auto sees = [&](int64_t i, int64_t j) { return i - s.window < j && j <= i; };
  for (const int64_t bad : {0, 13, 63, 64, 100})
    for (const char* in : {"q", "k", "v"}) {
      Inputs x({s, Storage::fp32, 2});
      (in[0] == 'q'   ? x.q
       : in[0] == 'k' ? x.k
                      : x.v)
          .at(bad, 7) = std::numeric_limits<float>::quiet_NaN();
      const Forward known = forward({reference()}, x);
      on_every_place([&](const Place& with) {
        SCOPED_TRACE(fmt::format("NaN in {} at {}", in, bad));
        const Results got = run(with, x, known);
        for (int64_t i = 0; i < s.length; ++i) {
          const bool of_query = in[0] == 'q' ? i == bad : sees(i, bad);
          EXPECT_EQ(std::isnan(got.at("out").at(i, 7)), of_query) << i;
          EXPECT_EQ(std::isnan(got.at("dq").at(i, 0)), of_query) << i;
          if (in[0] == 'q') {
            EXPECT_EQ(std::isnan(got.at("dk").at(i, 7)), sees(bad, i)) << i;
          }
        }
      });
    }
}

}  // namespace
}  // namespace ng::conformance::attention
