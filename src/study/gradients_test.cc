// Study gradients on runs of a second.
#include <gtest/gtest.h>

#include <cmath>

#include "base/files.h"
#include "study/study.h"
#include "support/session_runs.h"

namespace ng::study {
namespace {

class Gradients : public SessionRuns {
 protected:
  void SetUp() override {
    SessionRuns::SetUp();
    Listener listener;
    train(config({"model.head_dim=32", "model.kv_heads=2", "model.width=64", "model.ffn=128",
                  "model.context=32", "train.batch=4", "train.keep_checkpoints=3",
                  "data.validation_split=tail"}),
          listener);
  }
  [[nodiscard]] RunSubject subject(std::vector<std::string> recipes, int64_t draws = 3) const {
    return {.folder = in("out"), .steps = {}, .recipes = std::move(recipes), .draws = draws};
  }
  static Report report(const RunSubject& subject, uint64_t seed = 1, int threads = 1) {
    return study_of("gradients").run({.seed = seed, .threads = {threads}, .run = subject});
  }
  static std::string refusal_of(const RunSubject& subject) {
    try {
      (void)report(subject);
    } catch (const Error& error) {
      return error.what();
    }
    return "done";
  }
};

const Grid& grid_of(const Report& report, std::string_view name) {
  for (const Grid& grid : report.sections.front().grids)
    if (grid.name == name) return grid;
  throw std::runtime_error("no such grid");
}

TEST_F(Gradients, NearestIsBiasedAndStochasticRoundingIsNot) {
  RunSubject run = subject({"fp32", "mxfp4-nr", "mxfp4-sr"}, 64);
  run.steps = {6};
  const Report found = report(run);
  const Grid& projection = grid_of(found, "projection");
  const Grid& one = grid_of(found, "sqnr");
  const Grid& mean = grid_of(found, "sqnr_of_mean");
  EXPECT_EQ(projection.columns, std::vector<std::string>{"step 6"});
  EXPECT_EQ(projection.at(0, 0).found, 1);
  EXPECT_EQ(grid_of(found, "cosine").at(0, 0).found, 1);
  EXPECT_TRUE(std::isnan(one.at(0, 0).found));  // nothing is lost
  EXPECT_EQ(grid_of(found, "loss").at(0, 0).found, 0);
  EXPECT_NE(grid_of(found, "loss").at(1, 0).found, 0);

  EXPECT_LT(projection.at(1, 0).found, 0.97);
  EXPECT_TRUE(std::isnan(projection.at(1, 0).error));  // nothing is drawn
  EXPECT_NEAR(mean.at(1, 0).found, one.at(1, 0).found, 1e-4);

  EXPECT_NEAR(projection.at(2, 0).found, 1, 5 * projection.at(2, 0).error + 0.005);
  EXPECT_GT(mean.at(2, 0).found, one.at(2, 0).found + 10);
  EXPECT_LT(grid_of(found, "bias").at(2, 0).found, grid_of(found, "bias").at(1, 0).found / 2);
}

TEST_F(Gradients, HaveTheSameBitsOnAnyNumberOfThreads) {
  const RunSubject run = subject({"bf16", "nvfp4-all"});
  const std::string csv = csv_of(report(run));
  EXPECT_EQ(csv_of(report(run, 1, 3)), csv);
  EXPECT_NE(csv_of(report(run, 2)), csv);
}

TEST_F(Gradients, GoThroughAllCheckpointsAndKindsOfLayers) {
  const Report found = report(subject({"mxfp4-nr"}, 2));
  EXPECT_EQ(grid_of(found, "projection").columns,
            (std::vector<std::string>{"step 2", "step 4", "step 6"}));
  const Grid& kinds = grid_of(found, "projection_by_kind");
  EXPECT_EQ(kinds.rows.front(), "mxfp4-nr: attn.q");
  EXPECT_EQ(kinds.rows.back(), "mxfp4-nr: mlp.down");
  EXPECT_EQ(kinds.rows.size(), 7u);
  EXPECT_NE(page_of(found, {}).find("<svg"), std::string::npos);
}

// The first gradient under delayed scaling has seen no amax: it is not one of the draws.
TEST_F(Gradients, DelayedScalesHaveAHistory) {
  const Grid projection = grid_of(report(subject({"fp8-delayed"}, 2)), "projection");
  EXPECT_NEAR(projection.at(0, 0).found, 1, 0.1);
}

// Their models have parameters that FP32's lacks: bit-widths and, of nipq, ranges.
TEST_F(Gradients, NoiseOnWeightsIsOneOfTheRecipes) {
  const Report found = report(subject({"bf16", "gaussws-all", "diffq", "nipq"}, 4));
  const Grid& projection = grid_of(found, "projection");
  for (size_t r = 1; r < projection.rows.size(); ++r) {
    EXPECT_NEAR(projection.at(r, 0).found, 1, 0.2) << projection.rows[r];
    EXPECT_NE(grid_of(found, "loss").at(r, 0).found, 0) << projection.rows[r];
  }
  EXPECT_GT(projection.at(1, 0).error, 0) << "each draw has its own noise";
  EXPECT_EQ(grid_of(found, "projection_by_kind").rows.size(), 4u * 7) << "matrices alone";
}

TEST_F(Gradients, RefuseWhatIsNotThere) {
  const auto expect = [](const RunSubject& run, const char* word) {
    const std::string said = refusal_of(run);
    EXPECT_NE(said.find(word), std::string::npos) << said;
  };
  expect(subject({"bf16", "bf16"}), "named twice");
  expect(subject({"mxfp5"}), "mxfp5");
  RunSubject run = subject({"bf16"});
  run.steps = {4, 5};
  expect(run, "no checkpoint of step 5: some of 2, 4, 6");
  run.folder = in("nowhere");
  expect(run, "no such folder");
  run.folder = in("out/model");
  expect(run, "holds no run.toml");
  run.folder = "";
  expect(run, "no run is named");
  remove_all(in("out/checkpoints"));
  expect(subject({"bf16"}), "holds no checkpoint");
}

TEST_F(Gradients, RefuseADamagedCheckpoint) {
  write_file_atomically(checkpoint(4) + "/state.safetensors", "not a tensor");
  EXPECT_NE(refusal_of(subject({"bf16"})).find("state.safetensors"), std::string::npos);
}

}  // namespace
}  // namespace ng::study
