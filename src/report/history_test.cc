#include "report/history.h"

#include <gtest/gtest.h>

#include <cmath>

#include "base/files.h"

namespace ng::report {
namespace {

class HistoryTest : public testing::Test {
 protected:
  void SetUp() override {
    path_ = join_path(testing::TempDir(), "history_test.jsonl");
    remove_all(path_);
  }
  void TearDown() override { remove_all(path_); }
  void write(const std::string& text) { AppendFile(path_).append(text); }

  std::string path_;
};

TEST_F(HistoryTest, IsEmptyWhereThereIsNoFileYet) {
  History history(path_);
  history.read();
  EXPECT_EQ(history.steps(), 0);
  EXPECT_TRUE(std::isnan(history.last_val_loss()));
}

TEST_F(HistoryTest, ReadsCompleteLinesAsTheyCome) {
  History history(path_);
  write(
      "{\"step\":1,\"tokens\":64,\"loss\":5.5,\"lr\":0.1,\"grad_norm\":2,\"seconds\":1}\n"
      "{\"step\":1,\"val_loss\":5.25,\"val_bits_per_byte\":7.5}\n"
      "{\"step\":2,\"tokens\":128,\"lo");
  history.read();
  EXPECT_EQ(history.steps(), 1);
  EXPECT_EQ(history.last_val_loss(), 5.25);
  EXPECT_EQ(history.last_bits_per_byte(), 7.5);
  write("ss\":null,\"lr\":0.1,\"grad_norm\":null,\"seconds\":3,\"skipped\":true}\n");
  history.read();
  EXPECT_EQ(history.steps(), 2);
  EXPECT_EQ(history.tokens(), 128);
  EXPECT_EQ(history.skipped(), 1);
  EXPECT_EQ(history.seconds(), 3.0);
  ASSERT_EQ(history.loss().buckets().size(), 2u);
  EXPECT_EQ(history.loss().buckets()[0].mean(), 5.5);
  EXPECT_TRUE(std::isnan(history.loss().buckets()[1].mean()));
}

TEST_F(HistoryTest, TellsPairsFromTheirValidation) {
  History history(path_);
  write(
      "{\"step\":1,\"loss\":0.7,\"seconds\":1,\"rewards/margins\":0.5,\"logps/chosen\":-9}\n"
      "{\"step\":1,\"val_loss\":0.6,\"val_rewards/margins\":0.25}\n"
      "{\"step\":2,\"loss\":0.7,\"seconds\":1,\"rewards/margins\":null}\n");
  history.read();
  ASSERT_EQ(history.preferences().size(), 2u);
  const Series& margins = history.preferences().at("rewards/margins");
  ASSERT_EQ(margins.buckets().size(), 2u);
  EXPECT_EQ(margins.buckets()[0].mean(), 0.5);
  EXPECT_TRUE(std::isnan(margins.buckets()[1].mean()));
  EXPECT_EQ(history.preferences().at("logps/chosen").buckets()[0].mean(), -9);
  ASSERT_EQ(history.val_preferences().size(), 1u);
  EXPECT_EQ(history.val_preferences().at("rewards/margins").buckets()[0].mean(), 0.25);
  EXPECT_TRUE(std::isnan(history.last_bits_per_byte()));
}

TEST_F(HistoryTest, AddsUpTheTimesOfItsProcesses) {
  write(
      "{\"step\":1,\"loss\":1,\"seconds\":10}\n"
      "{\"event\":\"time\",\"step\":1,\"seconds\":{\"loss\":1.0,\"gemm fprop\":4.0}}\n"
      "{\"step\":2,\"loss\":1,\"seconds\":20}\n"
      "{\"event\":\"time\",\"step\":2,\"seconds\":{\"loss\":2.0,\"gemm fprop\":8.0}}\n"
      "{\"event\":\"resume\",\"step\":2}\n"
      "{\"step\":3,\"loss\":1,\"seconds\":5}\n"
      "{\"event\":\"time\",\"step\":3,\"seconds\":{\"loss\":0.5,\"gemm dgrad\":3.0}}\n");
  History history(path_);
  history.read();
  EXPECT_EQ(history.seconds(), 25.0);
  EXPECT_EQ(
      history.seconds_by_kind(),
      (std::map<std::string, double>{{"gemm dgrad", 3.0}, {"gemm fprop", 8.0}, {"loss", 2.5}}));
}

TEST_F(HistoryTest, TakesOperandsWhereTheyAreByLayer) {
  write(
      "{\"step\":1,\"loss\":1,\"operands\":{\"dgrad.grad\":{\"flushed\":0.5,\"saturated\":0}}}\n"
      "{\"step\":2,\"loss\":1,\"operands\":{\"blocks.0.mlp.up\":{\"dgrad.grad\":"
      "{\"flushed\":0.25,\"saturated\":0,\"sqnr_db\":18.5}},\"head\":{\"fprop.input\":"
      "{\"sqnr_db\":30}}}}\n");
  History history(path_);
  history.read();
  ASSERT_EQ(history.operands().size(), 2u);
  const Curves& grad = history.operands().at("blocks.0.mlp.up").at("dgrad.grad");
  const auto last = [](const Curves& operand, Loss loss) {
    return operand[static_cast<size_t>(loss)].buckets().back().mean();
  };
  EXPECT_EQ(last(grad, Loss::sqnr_db), 18.5);
  EXPECT_EQ(last(grad, Loss::flushed), 0.25);
  const Curves& head = history.operands().at("head").at("fprop.input");
  EXPECT_EQ(last(head, Loss::sqnr_db), 30.0);
  EXPECT_TRUE(std::isnan(last(head, Loss::saturated)));
}

TEST_F(HistoryTest, TakesUpdatesByLayer) {
  write(
      "{\"step\":1,\"loss\":1,\"updates\":{\"blocks.0.mlp.up.weight\":{\"changed\":0.25,"
      "\"ratio\":1.5,\"projection\":null,\"cosine\":0.5,\"alpha_over_lr\":8}}}\n"
      "{\"step\":50,\"loss\":1,\"updates\":{\"blocks.0.mlp.up.weight\":{\"changed\":0.5}}}\n");
  History history(path_);
  history.read();
  ASSERT_EQ(history.updates().size(), 1u);
  const Curves& up = history.updates().at("blocks.0.mlp.up");
  const auto of = [&](UpdateMetric metric) { return up[static_cast<size_t>(metric)].buckets(); };
  EXPECT_EQ(of(UpdateMetric::changed).back().mean(), 0.5);
  EXPECT_EQ(of(UpdateMetric::changed).back().first, 50);
  EXPECT_EQ(of(UpdateMetric::alpha_over_lr).front().mean(), 8);
  EXPECT_TRUE(std::isnan(of(UpdateMetric::projection).front().mean()));
}

TEST_F(HistoryTest, TakesBitWidthsByLayer) {
  write(
      "{\"step\":1,\"loss\":1,\"bit_widths\":{\"blocks.0.mlp.up\":{\"mean\":6,\"sd\":0.5,"
      "\"max\":7,\"up_to_9\":1}}}\n"
      "{\"step\":50,\"loss\":1,\"bit_widths\":{\"blocks.0.mlp.up\":{\"mean\":5.5}}}\n");
  History history(path_);
  history.read();
  const Curves& up = history.bit_widths().at("blocks.0.mlp.up");
  const auto of = [&](BitMetric metric) { return up[static_cast<size_t>(metric)].buckets(); };
  EXPECT_EQ(of(BitMetric::mean).back().mean(), 5.5);
  EXPECT_EQ(of(BitMetric::most).front().mean(), 7);
  EXPECT_EQ(of(BitMetric::up_to_9).front().mean(), 1);
  EXPECT_TRUE(std::isnan(of(BitMetric::least).front().mean()));
}

TEST_F(HistoryTest, ReadsFilesLargerThanWhatItReadsAtATime) {
  std::string lines;
  for (int step = 1; step <= 3000; ++step)
    lines += "{\"step\":" + std::to_string(step) + ",\"loss\":1,\"more\":\"" +
             std::string(static_cast<size_t>(step % 7 * 200), 'x') + "\"}\n";
  lines += "{\"step\":3001,\"loss\":1,\"more\":\"" + std::string(3 << 20, 'x') + "\"}\n";
  write(lines);
  History history(path_, 4000);
  history.read();
  EXPECT_EQ(history.steps(), 3001);
  ASSERT_EQ(history.loss().buckets().size(), 3001u);
  EXPECT_EQ(history.loss().buckets()[1234].first, 1235);
}

TEST_F(HistoryTest, PassesOverWhatIsNoMetric) {
  write("[1]\nnonsense\n{\"other\":1}\n{\"step\":7,\"loss\":2}\n");
  History history(path_);
  history.read();
  EXPECT_EQ(history.steps(), 7);
  EXPECT_EQ(history.loss().buckets().size(), 1u);
}

}  // namespace
}  // namespace ng::report
