#include "report/run_text.h"

#include <gtest/gtest.h>

namespace ng::report {
namespace {

TEST(ModelText, SaysWhichLayersHaveWindows) {
  ModelConfig config = model_preset("llama-134m");
  EXPECT_EQ(model_text(config),
            "llama: 12 layers, width 768, 12 heads of 64, ffn 2048, context 2048, vocabulary "
            "32000, untied head");
  config.windows.size = 512;
  EXPECT_NE(model_text(config).find("context 2048, windows of 512 tokens, vocabulary"),
            std::string::npos);
  config.windows.layers.resize(12, true);
  config.windows.layers[3] = false;
  EXPECT_NE(model_text(config).find("windows of 512 tokens in 11 of 12 layers,"),
            std::string::npos);
}

TEST(ScheduleText, SaysWhereTheWarmUpDoesNotEnd) {
  RunConfig config;
  config.train.steps = 21;
  const StepSettings step = {.sequences = 16, .length = 128, .micros = 2, .optimizer = {}};
  EXPECT_EQ(schedule_text(config, step),
            "21 steps of 2 x 16 x 128 = 4,096 tokens; lr 0.001 to 0.0001, cosine, "
            "20 steps of warm-up");
  EXPECT_TRUE(
      schedule_text(config, step, 3).starts_with("21 steps of 3 ranks x 2 x 16 x 128 = 12,288"))
      << schedule_text(config, step, 3);
  config.train.steps = 20;
  EXPECT_TRUE(schedule_text(config, step).ends_with("20 steps of warm-up, which is all of the run"))
      << schedule_text(config, step);
}

}  // namespace
}  // namespace ng::report
