// What tests' program has of the emulated card, beside what the program writes: files of the same
// bytes.
#include <cmath>

#include "io/safetensors.h"
#include "program.h"

namespace ng::e2e {
namespace {

constexpr int64_t kRows = 37, kCols = 70, kSteps = 2;

class EmulatedCard : public Program {
 protected:
  void SetUp() override {
    if (std::getenv("NG_EMULATED") == nullptr) GTEST_SKIP() << "no Boost.Context";
    std::vector<float> w(kRows * kCols), g(kSteps * w.size()), noise(w.size());
    for (size_t i = 0; i < w.size(); ++i) w[i] = 0.1f * std::sin(0.7f * float(i * i % 977));
    for (size_t i = 0; i < g.size(); ++i) g[i] = std::cos(1.3f * float(i * i % 883));
    for (size_t i = 0; i < noise.size(); ++i) noise[i] = float(i % 5) - 2;
    const std::vector<float> input(5 * kCols, 0.25f), grad(5 * kRows, -0.5f), clip = {0.08f};
    io::write_safetensors(path("plain"), {{"a", "F32", {kRows, kCols}, w.data()},
                                          {"none", "F32", {0, 32}, w.data()}});
    io::write_safetensors(path("steps"), {{"weight", "F32", {kRows, kCols}, w.data()},
                                          {"grad", "F32", {kSteps, kRows, kCols}, g.data()}});
    io::write_safetensors(path("step"), {{"weight", "F32", {kRows, kCols}, w.data()},
                                         {"grad", "F32", {kRows, kCols}, g.data()},
                                         {"noise", "F32", {kRows, kCols}, noise.data()}});
    io::write_safetensors(path("drawn"), {{"weight", "F32", {kRows, kCols}, w.data()},
                                          {"grad", "F32", {kRows, kCols}, g.data()},
                                          {"alpha", "F32", {1, 1}, clip.data()}});
    io::write_safetensors(path("layer"), {{"weight", "F32", {kRows, kCols}, w.data()},
                                          {"input", "F32", {5, kCols}, input.data()},
                                          {"grad", "F32", {5, kRows}, grad.data()}});
    io::write_safetensors(path("factors"), {{"a", "F32", {kRows, kCols}, w.data()},
                                            {"b", "F32", {kRows, kCols}, g.data()}});
  }

  /// `command` with an output, on `backend` and on the emulated card in an order of threads.
  void expect_same(std::vector<std::string> command, const std::string& backend) const {
    std::string line;
    for (const std::string& word : command) line += word + ' ';
    SCOPED_TRACE(line);
    command.insert(command.end(), {"--backend", backend});
    (void)run_well(command);
    const std::string want = text_of(path("out"));
    fs::remove(path("out"));
    command.back() = "cuda-emulated";
    command.insert(command.end(), {"--thread-order", "7"});
    const char* emulated = std::getenv("NG_EMULATED");
    const Result result = Process(command, folder_, "", "/dev/null", {}, emulated).wait();
    EXPECT_EQ(result.code, 0) << result.err;
    EXPECT_TRUE(text_of(path("out")) == want) << "other bytes";
    fs::remove(path("out"));
  }
};

TEST_F(EmulatedCard, CastsAreThoseOfTheProgram) {
  for (const char* format :
       {"mxfp4", "nvfp4", "fp8_e4m3", "int8", "bf16", "uint8", "uint4", "ue4m3", "float8_e8m0fnu"})
    expect_same({"cast", "plain", "out", "--format", format}, "cpu");
}

TEST_F(EmulatedCard, NoiseIsThatOfTheProgram) {
  expect_same({"noise", "drawn", "out", "--recipe", "nipq"}, "cpu");
  for (const char* recipe : {"gaussws-all", "diffq"})
    expect_same({"noise", "step", "out", "--recipe", recipe}, "cpu");
}

TEST_F(EmulatedCard, LayersProductsAndUpdatesAreThoseOfTheDefinition) {
  expect_same({"linear", "layer", "out", "--recipe", "mxfp4-sr-rht"}, "ref");
  expect_same({"matmul", "factors:a", "factors:b", "--a", "mxfp4", "--b", "nvfp4", "--out", "out"},
              "ref");
  expect_same({"update", "steps", "out", "--recipe", "fp8-lm"}, "ref");
}

}  // namespace
}  // namespace ng::e2e
