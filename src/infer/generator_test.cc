// Text token by token is that of the same tokens at once, whatever is kept in between.
#include "infer/generator.h"

#include <gtest/gtest.h>

#include <stdexcept>

#include "backend/wrapped_backend.h"
#include "support/tiny_run.h"

namespace ng {
namespace {

using Ids = std::vector<int32_t>;

/// The cpu backend, which counts the operands that it makes.
class CountingBackend final : public WrappedBackend {
 public:
  explicit CountingBackend(int64_t& prepared)
      : WrappedBackend(make_backend("cpu", {1})), prepared_(prepared) {}
  void execute(const Operation& operation) override {
    if (std::holds_alternative<Prepare>(operation)) ++prepared_;
    WrappedBackend::execute(operation);
  }

 private:
  int64_t& prepared_;
};

/// A head that is not the embedding, which would give each token itself again.
ModelConfig with_own_head() {
  ModelConfig config = tiny_llama();
  config.tie_embeddings = false;
  return config;
}

/// Weights eight times the usual first ones, so that their sums tell tokens apart.
struct TinyText {
  explicit TinyText(const std::string& toml)
      : run(std::make_unique<CountingBackend>(prepared), 7),
        model(run, with_own_head(), Recipe::parse(toml, "t.toml"), RecomputePolicy::none),
        generator(run, model) {
    model.initialize(run);
    change_rows([](std::span<const float> row, size_t at) { return 8 * row[at]; });
  }
  Ids made(const Ids& prompt, int64_t count) {
    Ids ids;
    generator.generate(prompt, count, {}, [&](int32_t id) {
      ids.push_back(id);
      return true;
    });
    return ids;
  }
  /// Each token by a call of its own, whose prompt are all before it.
  Ids one_by_one(Ids tokens, int64_t count) {
    Ids ids;
    for (int64_t i = 0; i < count; ++i) {
      ids.push_back(made(tokens, 1).front());
      tokens.push_back(ids.back());
    }
    return ids;
  }
  /// Each row of each matrix becomes what `change` makes of it.
  void change_rows(const std::function<float(std::span<const float> row, size_t at)>& change) {
    for (size_t i = 0; i < model.parameters().size(); ++i) {
      const Parameter& p = model.parameters()[i];
      if (p.spec.is_vector) continue;
      const std::vector<float> values = download(run.backend(), p.value());
      const auto cols = static_cast<size_t>(p.spec.cols);
      for (int64_t row = 0; row < p.spec.rows; ++row) {
        const std::span<const float> old =
            std::span(values).subspan(static_cast<size_t>(row) * cols, cols);
        std::vector<float> changed(cols);
        for (size_t c = 0; c < cols; ++c) changed[c] = change(old, c);
        model.write_row(run, i, row, changed);
      }
    }
  }
  void turn_round() {
    change_rows([](std::span<const float> row, size_t at) { return row[(at + 1) % row.size()]; });
  }

  int64_t prepared = 0;
  Run run;
  Model model;
  Generator generator;
};

// Operands whose blocks lie in one token's row; storage that is read as it is, as a copy, by codes.
const char* const kTextRecipes[] = {
    "name='fp32'",
    "name='x'\ninherit='bf16'",
    "name='x'\ninherit='mxfp4-all'",
    "name='x'\ninherit='mxfp8'",
    "name='x'\ninherit='mxfp8'\nweights={storage='fp8_e4m3', update='stochastic'}",
    "name='x'\ninherit='mxfp8'\nweights={storage='mxfp8_e4m3', update='stochastic'}",
    "name='x'\ninherit='nipq'",
};

TEST(Generator, TextIsThatOfAllTokensAtOnce) {
  for (const char* recipe : kTextRecipes) {
    SCOPED_TRACE(recipe);
    TinyText text(recipe);
    for (const Ids& prompt : {Ids{5, 9, 30}, Ids{7}})
      EXPECT_EQ(text.made(prompt, 9), text.one_by_one(prompt, 9));
  }
}

// The context is 12: beyond it the second half goes on as the new prompt.
TEST(Generator, TextBeyondTheContextGoesOnFromHalfOfIt) {
  for (const char* recipe : kTextRecipes) {
    SCOPED_TRACE(recipe);
    TinyText text(recipe);
    const Ids prompt = {1, 2, 3, 4};
    Ids tokens = prompt;
    for (int i = 0; i < 40; ++i) {
      if (tokens.size() > 12) tokens.erase(tokens.begin(), tokens.end() - 6);
      tokens.push_back(text.made(tokens, 1).front());
    }
    const Ids ids = text.made(prompt, 40);
    EXPECT_TRUE(std::equal(tokens.rbegin(), tokens.rend(), ids.rbegin()));
  }
}

TEST(Generator, NothingIsKeptOfWeightsThatAreNoMore) {
  for (const char* recipe : kTextRecipes) {
    SCOPED_TRACE(recipe);
    TinyText text(recipe), fresh(recipe);
    const Ids before = text.made({1, 2}, 8);
    text.turn_round();
    fresh.turn_round();
    EXPECT_EQ(text.made({1, 2}, 8), fresh.made({1, 2}, 8));
    EXPECT_NE(text.made({1, 2}, 8), before);
  }
}

TEST(Generator, AnEndInBetweenLeavesItFitForMore) {
  for (const char* recipe : kTextRecipes) {
    TinyText text(recipe);
    const Ids want = text.made({4, 5}, 6);
    const auto stop = [](int32_t) -> bool { throw std::runtime_error("enough"); };
    for (const int64_t after : {0, 1, 3}) {
      int64_t seen = 0;
      text.generator.generate(Ids{3}, 9, {}, [&](int32_t) { return seen++ < after; });
    }
    EXPECT_THROW(text.generator.generate(Ids{3}, 9, {}, stop), std::runtime_error);
    EXPECT_EQ(text.made({4, 5}, 6), want);
  }
}

// Two blocks of seven linear layers and a head: a weight and an input each; q, k and v share one,
// and so do gate and up.
TEST(Generator, WeightsAreQuantizedOnceForAllTokens) {
  TinyText text("name='x'\ninherit='mxfp8'");
  const auto prepared = [&](int64_t tokens) {
    const int64_t before = text.prepared;
    (void)text.made({7}, tokens);
    return text.prepared - before;
  };
  const int64_t one = prepared(1), two = prepared(2), nine = prepared(9);
  EXPECT_EQ(one, (7 + 4) * 2 + 2);
  EXPECT_EQ(two - one, 4 * 2 + 1) << "inputs alone";
  EXPECT_EQ(nine - one, 8 * (two - one));
}

}  // namespace
}  // namespace ng
