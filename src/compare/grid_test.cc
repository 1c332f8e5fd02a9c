#include "compare/grid.h"

#include <gtest/gtest.h>

#include "base/error.h"

namespace ng {
namespace {

RunConfig loaded(const std::vector<std::string>& settings) {
  return RunConfig::parse("", "run.toml", settings);
}

std::string refusal_of(const std::vector<std::string>& axes) {
  try {
    (void)grid_points(axes, loaded);
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

TEST(Grid, HasEveryCombinationTheLastKeyFastest) {
  const auto points = grid_points({"train.lr=1e-3,2e-3", "train.batch=4,8"}, loaded);
  ASSERT_EQ(points.size(), 4u);
  EXPECT_EQ(text_of(points[0].settings), "train.lr=1e-3, train.batch=4");
  EXPECT_EQ(text_of(points[1].settings), "train.lr=1e-3, train.batch=8");
  EXPECT_EQ(points[2].config.train.lr, 2e-3);
  EXPECT_EQ(points[3].config.train.batch, 8);
  EXPECT_EQ(folder_name(points[3].settings), "train.lr=2e-3,train.batch=8");
}

TEST(Grid, WithoutAxesIsOneRun) {
  const auto points = grid_points({}, loaded);
  ASSERT_EQ(points.size(), 1u);
  EXPECT_EQ(text_of(points[0].settings), "");
}

TEST(Grid, ListsAndTextsAreValues) {
  const auto points = grid_points({"train.betas=[0.9, 0.95],[0.8, 0.99]"}, loaded);
  ASSERT_EQ(points.size(), 2u);
  EXPECT_EQ(points[1].config.train.beta1, 0.8);
  EXPECT_EQ(folder_name(points[1].settings), "train.betas=_0.8,_0.99_");
}

TEST(Grid, RefusesWhatIsNoGrid) {
  EXPECT_NE(refusal_of({"train.lr"}).find("--grid: train.lr: no key with values"),
            std::string::npos);
  EXPECT_NE(refusal_of({"train.lr=1e-3,"}).find("an empty value"), std::string::npos);
  EXPECT_NE(refusal_of({"train.lr=1e-3,1e-3"}).find("1e-3 is named twice"), std::string::npos);
  EXPECT_NE(refusal_of({"train.lr=1e-3,0.001"}).find("the same run as train.lr=1e-3"),
            std::string::npos);
  EXPECT_NE(refusal_of({"train.lr=1,2", "train.lr=3"}).find("the key is given twice"),
            std::string::npos);
  EXPECT_NE(refusal_of({"recipe=bf16,fp32"}).find("--recipes"), std::string::npos);
  EXPECT_NE(refusal_of({"train.lrr=1,2"}).find("train.lr"), std::string::npos) << "unknown key";
}

}  // namespace
}  // namespace ng
