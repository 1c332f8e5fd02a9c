#include "train/compare.h"

#include "base/checksum.h"
#include "support/session_runs.h"

namespace ng {
namespace {

class Compare : public SessionRuns {
 protected:
  /// As an interrupted run leaves it, where the recipe is known by `recipe_hash`.
  void leave_unfinished(const CompareRun& run, const std::string& recipe_hash) const {
    RunConfig same = run.config;
    same.train.threads = 0;
    const std::string text = same.resolved_toml() + recipe_hash;
    const Json json = {{"run", checksum_of(std::as_bytes(std::span(text)))}, {"result", nullptr}};
    make_folders(run.folder);
    write_file_atomically(join_path(run.folder, "result.json"), json.dump());
  }
};

TEST_F(Compare, KnowsItsRecipeByWhatDiffersOrByAllKeys) {
  const CompareRun run = compare_runs(config(), {"mxfp4-sr"}, 1, in("out")).front();
  const Recipe recipe = Recipe::load("mxfp4-sr");
  for (const std::string& hash : {recipe.hash(), recipe.hash_of_all_keys()}) {
    leave_unfinished(run, hash);
    EXPECT_NO_THROW((void)finished_result(run)) << hash;
  }
  leave_unfinished(run, Recipe::load("bf16").hash());
  EXPECT_THROW((void)finished_result(run), Error);
}

TEST(CompareCsv, HoldsRecipesOfAnyName) {
  CompareRow row;
  row.label = "my \"best\", again";
  row.seeds = 3;
  const std::string csv = compare_csv({row});
  EXPECT_EQ(csv.substr(csv.find('\n') + 1).rfind("\"my \"\"best\"\", again\",3,", 0), 0u) << csv;
}

}  // namespace
}  // namespace ng
