#include "compare/compare.h"

#include <cmath>

#include "base/checksum.h"
#include "compare/compare_table.h"
#include "support/session_runs.h"

namespace ng {
namespace {

class Compare : public SessionRuns {
 protected:
  /// One recipe of a comparison without twins.
  [[nodiscard]] CompareRun run_in(const std::string& recipe,
                                  const std::vector<std::string>& settings = {}) const {
    const ComparePlan plan{
        .recipes = {recipe}, .seeds = 1, .with_twin = false, .out = in("compare")};
    return compare_runs({{.settings = {}, .config = config(settings)}}, plan).front();
  }
  [[nodiscard]] static CompareResult trained(const CompareRun& run) {
    Listener listener;
    return train_to_compare(run, &listener.stop, listener).value();
  }
  /// As an interrupted run leaves it, where the recipe is known by `recipe_hash`.
  static void leave_unfinished(const CompareRun& run, const std::string& recipe_hash) {
    RunConfig same = run.config;
    same.train.threads = 0;
    const std::string text = same.resolved_toml() + recipe_hash;
    const Json json = {{"run", checksum_of(std::as_bytes(std::span(text)))}, {"result", nullptr}};
    make_folders(run.folder);
    write_file_atomically(join_path(run.folder, "result.json"), json.dump());
  }
  [[nodiscard]] static std::string refusal_of(const CompareRun& run) {
    try {
      (void)finished_result(run);
    } catch (const Error& error) {
      return error.what();
    }
    return "";
  }
};

TEST_F(Compare, KnowsItsRecipeByWhatDiffersOrByAllKeys) {
  const CompareRun run = run_in("mxfp4-sr");
  const Recipe recipe = Recipe::load("mxfp4-sr");
  for (const std::string& hash : {recipe.hash(), recipe.hash_of_all_keys()}) {
    leave_unfinished(run, hash);
    EXPECT_NO_THROW((void)finished_result(run)) << hash;
  }
  leave_unfinished(run, Recipe::load("bf16").hash());
  EXPECT_THROW((void)finished_result(run), Error);
}

TEST_F(Compare, TrainsOnOneSequenceOfATextShorterThanTheContext) {
  write_file_atomically(in("nine.txt"), "ninebytes");
  const CompareRun run =
      run_in("bf16", {"data.train=" + in("nine.txt"), "data.validation=" + in("nine.txt"),
                      "model.context=64", "train.length=8", "train.steps=2"});
  EXPECT_TRUE(std::isfinite(trained(run).val_loss));
}

TEST_F(Compare, ValidatesInBf16Too) {
  const CompareResult bf16 = trained(run_in("bf16")), narrow = trained(run_in("mxfp4-all"));
  EXPECT_EQ(bf16.val_loss_bf16, bf16.val_loss) << "the same numbers, to the bit";
  EXPECT_TRUE(std::isfinite(narrow.val_loss_bf16));
  EXPECT_NE(narrow.val_loss_bf16, narrow.val_loss);
  EXPECT_GT(narrow.seconds, 0);
  const std::optional<CompareResult> kept = finished_result(run_in("mxfp4-all"));
  ASSERT_TRUE(kept);
  EXPECT_EQ(kept->val_loss_bf16, narrow.val_loss_bf16);
  EXPECT_EQ(kept->seconds, narrow.seconds);
}

TEST_F(Compare, NamesTheKeysInWhichAFolderDiffers) {
  (void)trained(run_in("bf16"));
  const std::string other = refusal_of(run_in("bf16", {"train.lr=0.5", "train.threads=1"}));
  EXPECT_NE(other.find("train.lr is "), std::string::npos) << other;
  EXPECT_NE(other.find(" there and 0.5 here; train.min_lr is "), std::string::npos) << other;
  EXPECT_EQ(other.find("threads"), std::string::npos) << other;
}

TEST_F(Compare, TakesAFolderWhoseRunFileLacksAKeyThatHasItsDefault) {
  const CompareRun run = run_in("bf16");
  (void)trained(run);
  const std::string path = join_path(run.folder, "result.json");
  Json json = read_json_file(path, 1 << 20);
  json["run"] = "0123456789abcdef";  // of a version with other keys
  write_file_atomically(path, json.dump());
  EXPECT_EQ(refusal_of(run), "");
}

TEST_F(Compare, PlansATwinOfTheFirstRecipeThatDraws) {
  const auto twins = [&](const std::vector<std::string>& recipes) {
    std::vector<CompareRun> runs = compare_runs({{.settings = {}, .config = config()}},
                                                {.recipes = recipes, .seeds = 2, .out = "out"});
    runs.erase(runs.begin(), runs.end() - 2);
    return runs;
  };
  const CompareRun drawn = twins({"bf16", "mxfp4-sr", "nvfp4"}).front();
  EXPECT_EQ(drawn.of.label, "mxfp4-sr");
  EXPECT_EQ(drawn.of.twin, TwinOf::draws);
  EXPECT_EQ(drawn.config.twin, 1u);
  EXPECT_EQ(drawn.folder, "out/mxfp4-sr-seed3-twin");
  EXPECT_EQ(drawn.config.model.init_std, config().model.init_std);
  const CompareRun moved = twins({"bf16", "fp32"}).back();
  EXPECT_EQ(moved.of.label, "bf16");
  EXPECT_EQ(moved.of.twin, TwinOf::weights) << "a twin in its draws would be the same run";
  EXPECT_GT(*moved.config.model.init_std, *config().model.init_std);
  EXPECT_EQ(twins({"bf16", "gaussws-all"}).front().of.label, "gaussws-all");
}

TEST(DrawsRounding, WhereAScaleIsDrawnToo) {
  const std::string eden =
      "linear.dgrad = {grad = {format = 'nvfp4', rounding = 'eden'}, weight = 'nvfp4', "
      "hadamard = 16}";
  EXPECT_TRUE(draws_rounding(Recipe::parse(eden, "a.toml")));
  EXPECT_FALSE(draws_rounding(Recipe::load("bf16")));
}

TEST_F(Compare, ATwinIsOfTheRecipeWithItsKeys) {
  const auto twin_of = [&](const std::string& recipe, const std::string& rounding) {
    const RunConfig with =
        config({"recipe=" + recipe, "recipe.linear.dgrad.grad.rounding=" + rounding});
    return compare_runs({{.settings = {}, .config = with}},
                        {.recipes = {recipe}, .seeds = 1, .out = "out"})
        .back();
  };
  EXPECT_EQ(twin_of("mxfp4-nr", "stochastic").of.twin, TwinOf::draws);
  EXPECT_EQ(twin_of("mxfp4-nr", "nearest").of.twin, TwinOf::weights);
}

CompareResult result(const std::string& label, uint64_t seed, double loss, double bf16,
                     TwinOf twin = TwinOf::none, GridSettings settings = {}) {
  CompareResult one;
  one.of = {.label = label, .settings = std::move(settings), .twin = twin};
  one.seed = seed;
  one.val_loss = loss;
  one.val_loss_bf16 = bf16;
  return one;
}

TEST(CompareTable, ComparesOwnLossesAndThoseInBf16) {
  const CompareTable table = compare_table(
      {result("bf16", 1, 1.50, 1.50), result("bf16", 2, 1.60, 1.60), result("bf16", 3, 1.55, 1.55),
       result("a", 1, 1.541, 1.502), result("a", 2, 1.640, 1.601), result("a", 3, 1.589, 1.549),
       result("a", 1, 1.543, 1.503, TwinOf::draws), result("a", 2, 1.643, 1.601, TwinOf::draws)},
      0.005);
  ASSERT_EQ(table.rows.size(), 3u);
  EXPECT_EQ(table.rows[1].own.verdict, "worse");
  EXPECT_EQ(table.rows[1].bf16.verdict, "equal");
  EXPECT_EQ(table.rows[1].against, "bf16");
  EXPECT_EQ(table.rows[2].against, "a");
  EXPECT_EQ(table.rows[2].own.difference.pairs, 2);
  EXPECT_EQ(table.tests, 1) << "a twin is no test";
  ASSERT_EQ(table.floors.size(), 1u);
  EXPECT_NEAR(table.floors[0].own, std::sqrt((4e-6 + 9e-6) / 2), 1e-9);
  const CompareCells cells = loss_cells(table);
  EXPECT_EQ(cells.rows[1][0], "a");
  EXPECT_EQ(cells.rows[2].back(), "noise floor");
  EXPECT_EQ(
      compare_sentences(table)[1],
      "A forward pass in BF16 makes one figure of the two losses: those of bf16 are the same.");
}

TEST(CompareTable, SaysOnHowManyDifferencesAnIntervalRestsAndWhatWasRounded) {
  CompareTable table = compare_table({result("bf16", 1, 1.50, 1.50), result("bf16", 2, 1.60, 1.60),
                                      result("a", 1, 1.541, 1.502), result("a", 2, 1.640, 1.601)},
                                     0.005);
  const auto text = [&] {
    std::string all;
    for (const std::string& sentence : compare_sentences(table)) all += sentence + "\n";
    return all;
  };
  EXPECT_NE(text().find("of all recipes together, with 1 degree of freedom)"), std::string::npos)
      << text();
  EXPECT_EQ(text().find("train.save_dtype"), std::string::npos);
  table.saved_as = {"BF16", "F16"};
  EXPECT_NE(
      text().find("from model/, which train.save_dtype rounds to BF16 or F16; losses in own "),
      std::string::npos)
      << text();
}

TEST(CompareTable, OfOneSeedSaysThatNothingCanBeJudged) {
  const CompareTable table =
      compare_table({result("bf16", 1, 1.5, 1.5), result("a", 1, 1.9, 1.9)}, 0.005);
  EXPECT_EQ(table.rows[1].own.verdict, "one seed");
  const std::vector<std::string> sentences = compare_sentences(table);
  EXPECT_NE(sentences[2].find("differences cannot be judged"), std::string::npos) << sentences[2];
}

TEST(CompareTable, OfATwinThatIsTheSameRunKnowsNoFloor) {
  const CompareTable table =
      compare_table({result("a", 1, 1.5, 1.5), result("a", 1, 1.5, 1.5, TwinOf::draws)}, 0.005);
  EXPECT_NE(compare_sentences(table).back().find("no floor is known"), std::string::npos);
}

TEST(CompareTable, ComparesRecipesAtEachPointOfAGridAndPointsOfOneRecipe) {
  const GridSettings low = {{"train.lr", "1e-3"}}, high = {{"train.lr", "2e-3"}};
  const auto at = [](const char* label, const GridSettings& point, double loss) {
    return result(label, 1, loss, loss, TwinOf::none, point);
  };
  const CompareTable both = compare_table(
      {at("bf16", low, 1.5), at("a", low, 1.6), at("bf16", high, 1.4), at("a", high, 1.7)}, 0.005);
  EXPECT_EQ(both.blocks.size(), 2u);
  EXPECT_NEAR(both.rows[3].own.difference.mean, 0.3, 1e-12);
  EXPECT_EQ(loss_cells(both).rows[3][1], "2e-3");
  const CompareTable one = compare_table({at("bf16", low, 1.5), at("bf16", high, 1.4)}, 0.005);
  EXPECT_EQ(one.blocks.size(), 1u);
  EXPECT_NEAR(one.rows[1].own.difference.mean, -0.1, 1e-12);
  EXPECT_EQ(one.rows[1].against, "train.lr=1e-3");
}

TEST(CompareCsv, KeepsItsColumnsAndHoldsRecipesOfAnyName) {
  const std::string csv =
      compare_csv(compare_table({result("my \"best\", again", 7, 1.5, 1.25)}, 0.005));
  EXPECT_EQ(csv.rfind("recipe,seeds,val_loss,val_loss_sd,bits_per_byte,difference,difference_sd,"
                      "tokens_per_second,skipped,diverged,",
                      0),
            0u)
      << csv;
  EXPECT_EQ(csv.substr(csv.find('\n') + 1).rfind("\"my \"\"best\"\", again\",1,1.5,nan,", 0), 0u)
      << csv;
}

// Of before data.validation_split was a key: neither run.toml nor the result's hash has it.
TEST_F(Compare, ARunOfBeforeTheSplitWasAKeyGoesOnWithItsTail) {
  const CompareRun run = run_in("bf16");
  EXPECT_EQ(run.config.data.validation_split, ValidationSplit::spread);
  (void)trained(run);
  const std::string file = join_path(run.folder, "run.toml");
  std::string keys = read_file(file, 1 << 20);
  const std::string split = "data.validation_split = \"spread\"\n";
  keys.erase(keys.find(split), split.size());
  write_file_atomically(file, keys);
  const std::string path = join_path(run.folder, "result.json");
  Json json = read_json_file(path, 1 << 20);
  json["run"] = "0123456789abcdef";
  write_file_atomically(path, json.dump());
  EXPECT_EQ(run_in("bf16").config.data.validation_split, ValidationSplit::tail);
  EXPECT_EQ(refusal_of(run_in("bf16")), "");
  EXPECT_EQ(RunConfig::load(file).data.validation_split, ValidationSplit::tail);
}

}  // namespace
}  // namespace ng
