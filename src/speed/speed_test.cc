#include "model/config.h"
#include "speed/gemm_speed.h"
#include "speed/kernel_speed.h"
#include "speed/layer_speed.h"
#include "speed/machine.h"
#include "support/scratch_folder.h"

namespace ng {
namespace {

bool says(const std::string& error, std::string_view part) {
  return error.find(part) != std::string::npos;
}

TEST(KernelSpeed, OfTheKernelsAskedForBesideTheLimits) {
  SpeedRun run{.threads = {1}, .rows = 32, .cols = 128, .rounds = 1, .filter = "amax 1x"};
  std::vector<std::string> names;
  for (const KernelSpeed& speed : kernel_speeds(run)) {
    EXPECT_GT(speed.elements_per_second, 0) << speed.name;
    names.push_back(speed.name);
  }
  EXPECT_EQ(names, (std::vector<std::string>{"copy", "read", "amax 1x32", "amax 1x16"}));
  run.filter = "zzz";
  EXPECT_TRUE(says(error_of([&] { (void)kernel_speeds(run); }), "\"zzz\""));
}

TEST(GemmSpeed, OfEveryFormat) {
  GemmSpeed speed({.threads = {1}, .formats = {"fp32", "nvfp4/16x16"}, .rounds = 1});
  const std::vector<double> seconds = speed.seconds({.m = 16, .n = 16, .k = 32});
  ASSERT_EQ(seconds.size(), 2U);
  EXPECT_TRUE(seconds[0] > 0 && seconds[1] > 0);
  for (const char* format : {"mxfp4/1x16", "mxfp4/", "mxfp5"}) {
    GemmSpeed refused({.threads = {1}, .formats = {format}, .rounds = 1});
    EXPECT_TRUE(says(error_of([&] { (void)refused.seconds({1, 1, 32}); }), "mxfp")) << format;
  }
}

TEST(LayerSpeed, LayersOfOneShapeAreOneKind) {
  const Recipe recipe = Recipe::parse("linear = \"mxfp4\"", "test.toml");
  const ModelConfig config = model_preset("gpt2-124m");
  size_t layers = 0;
  const std::vector<LayerKind> kinds = layer_kinds(config, recipe, 0);
  for (const LayerKind& kind : kinds) layers += kind.names.size();
  EXPECT_LT(kinds.size(), 8U);
  EXPECT_GE(layers, 4U * static_cast<size_t>(config.layers));
}

TEST(Machine, HasMemory) {
  EXPECT_GT(machine_memory().total, 0U);
  EXPECT_GT(peak_resident_bytes(), 0U);
  EXPECT_LE(peak_resident_bytes(), machine_memory().total);
}

}  // namespace
}  // namespace ng
