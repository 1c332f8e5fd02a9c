// `capture`: what the layers of a run work on in one of its steps.
#include <cmath>
#include <map>

#include "base/json.h"
#include "io/safetensors.h"
#include "program.h"

namespace ng::e2e {
namespace {

class Capture : public Program {
 protected:
  void train(const std::string& out, std::vector<std::string> more = {}) const {
    std::vector<std::string> words = {"train", "tiny.toml", "--out", out, "--threads", "1"};
    words.insert(words.end(), more.begin(), more.end());
    const Result result = run(words);
    ASSERT_EQ(result.code, 0) << result.err;
  }
  [[nodiscard]] Json capture(const std::string& run_folder, int step,
                             const std::vector<std::string>& layers) const {
    std::vector<std::string> words = {"capture", run_folder, "c", "--step", std::to_string(step),
                                      "--json",  "--layers"};
    words.insert(words.end(), layers.begin(), layers.end());
    return Json::parse(run_well(words));
  }
  /// The loss of a step in metrics.jsonl, from 1.
  [[nodiscard]] Json loss_of(const std::string& run_folder, int step) const {
    std::istringstream lines(text_of(path(run_folder) / "metrics.jsonl"));
    for (std::string line; std::getline(lines, line);)
      if (const Json json = Json::parse(line);
          json.value("step", -1) == step && json.contains("lr"))
        return json["loss"];
    return {};
  }
  /// Every file below a folder and what is in it.
  [[nodiscard]] std::map<std::string, std::string> files_of(const std::string& folder) const {
    std::map<std::string, std::string> files;
    for (const auto& entry : fs::recursive_directory_iterator(path(folder)))
      if (entry.is_regular_file()) files[entry.path()] = text_of(entry.path());
    return files;
  }
  [[nodiscard]] std::vector<float> values(const std::string& name) const {
    return io::to_floats(io::Safetensors(path("c")).at(name));
  }
};

TEST_F(Capture, TheLossIsThatOfTheRunsNextStepAndTheRunStaysAsItIs) {
  train("r");
  const auto before = files_of("r");
  for (const int step : {0, 8, 10, 11}) {  // from the beginning, at and after a checkpoint
    const Json made = capture("r", step, {"head"});
    EXPECT_EQ(made.at("loss"), loss_of("r", step + 1)) << step;
    EXPECT_EQ(made["loss"].dump(), loss_of("r", step + 1).dump()) << "to the digit";
    EXPECT_EQ(made.at("recorded_loss"), made["loss"]);
    EXPECT_EQ(made.at("checkpoint"), step < 8 ? 0 : 8);
  }
  const Json last = Json::parse(run_well({"capture", "r", "--layers", "head", "c", "--json"}));
  EXPECT_EQ(last.at("step"), 12) << "that of the newest checkpoint, and OUT behind the patterns";
  EXPECT_TRUE(last.at("recorded_loss").is_null());
  EXPECT_EQ(files_of("r"), before);
}

TEST_F(Capture, OfARunThatWentOnInOtherNumbers) {
  train("r");
  const Result on = run({"train", "tiny.toml", "--out", "r", "--resume", "--recipe", "nvfp4-all",
                         "--set", "train.steps=14"});
  ASSERT_EQ(on.code, 0) << on.err;
  const Result captured = run({"capture", "r", "c", "--step", "13", "--layers", "head", "--json"});
  ASSERT_EQ(captured.code, 0) << captured.err;
  EXPECT_EQ(Json::parse(captured.out).at("loss"), loss_of("r", 14));
}

// |sum - exact| of FP32 sums of `terms` products.
void expect_near(const std::vector<float>& got, const std::vector<double>& want,
                 const std::vector<double>& magnitudes, double terms, const std::string& what) {
  ASSERT_EQ(got.size(), want.size()) << what;
  for (size_t i = 0; i < got.size(); ++i)
    ASSERT_LE(std::fabs(double(got[i]) - want[i]), (terms + 2) * 0x1p-24 * magnitudes[i] + 1e-30)
        << what << ' ' << i;
}

/// A (m, k) by its rows or columns times B the same way: Σ_k a(i, k)·b(j, k).
struct Product {
  std::vector<double> sums, magnitudes;
};
Product product(const std::vector<float>& a, const std::vector<float>& b, size_t m, size_t n,
                size_t k, std::pair<size_t, size_t> a_steps, std::pair<size_t, size_t> b_steps) {
  Product made;
  for (size_t i = 0; i < m; ++i)
    for (size_t j = 0; j < n; ++j) {
      double sum = 0, magnitude = 0;
      for (size_t l = 0; l < k; ++l) {
        const double term = double(a[i * a_steps.first + l * a_steps.second]) *
                            double(b[j * b_steps.first + l * b_steps.second]);
        sum += term;
        magnitude += std::fabs(term);
      }
      made.sums.push_back(sum);
      made.magnitudes.push_back(magnitude);
    }
  return made;
}

TEST_F(Capture, InFp32TheGradientsAreProductsOfWhatIsBesideThem) {
  train("r", {"--recipe", "fp32"});
  const Json made = capture("r", 9, {"blocks.1.*", "head"});
  EXPECT_EQ(made.at("batch"), (Json{{"sequences", 2}, {"length", 32}, {"micro_batches", 2}}));
  const size_t tokens = 128;
  for (const std::string layer : {"attn.q", "attn.v", "attn.out", "mlp.up", "mlp.down"}) {
    const std::string name = "blocks.1." + layer;
    const std::vector<float> x = values(name + ".x"), w = values(name + ".weight"),
                             dy = values(name + ".dy");
    const size_t k = x.size() / tokens, n = dy.size() / tokens;
    ASSERT_EQ(w.size(), n * k) << name;
    const Product dw = product(dy, x, n, k, tokens, {1, n}, {1, k});
    expect_near(values(name + ".dw"), dw.sums, dw.magnitudes, double(tokens), name + ".dw");
    const Product dx = product(dy, w, tokens, k, n, {n, 1}, {1, k});
    expect_near(values(name + ".dx"), dx.sums, dx.magnitudes, double(n), name + ".dx");
  }
  EXPECT_EQ(values("blocks.1.attn.q.x"), values("blocks.1.attn.k.x")) << "one input";
  EXPECT_NE(values("blocks.1.attn.q.dx"), values("blocks.1.attn.k.dx")) << "each its own";
  const io::Safetensors file(path("c"));
  EXPECT_EQ(file.find("blocks.0.mlp.up.x"), nullptr);
  EXPECT_EQ(file.at("head.x").shape, (std::vector<int64_t>{128, 64}));
  EXPECT_EQ(file.at("head.dw").shape, file.at("head.weight").shape);
}

TEST_F(Capture, RecomputationShowsTheSame) {
  train("r");
  train("again", {"--set", "train.recompute=block"});
  (void)capture("r", 9, {"*"});
  fs::rename(path("c"), path("kept"));
  (void)capture("again", 9, {"*"});
  const io::Safetensors kept(path("kept")), made(path("c"));
  ASSERT_EQ(kept.entries().size(), made.entries().size());
  for (const io::SafetensorsEntry& entry : kept.entries())
    EXPECT_TRUE(io::are_same(entry, made.at(entry.name))) << entry.name;
}

TEST_F(Capture, SaysItsPhaseInTheWordsOfOtherCommands) {
  train("r", {"--recipe", "nvfp4-late-bf16"});
  const std::vector<std::pair<std::string, std::string>> phases = {
      {"0", "phase 0 (the first of 2: up to 82 % of training)"},
      {"11", "phase 1 (the last of 2: from 82 % of training on)"}};
  for (const auto& [step, words] : phases) {
    const std::string said = run_well({"capture", "r", "c", "--step", step, "--layers", "head"});
    EXPECT_NE(said.find(" steps, in nvfp4-late-bf16, " + words + "\n"), std::string::npos) << said;
  }
}

TEST_F(Capture, SaysWhereItIsFromAndIsTakenByName) {
  train("r");
  (void)capture("r", 9, {"blocks.1.mlp.up"});
  const auto metadata = io::Safetensors(path("c")).metadata();
  EXPECT_EQ(metadata.at("capture"), "blocks.1.mlp.up");
  EXPECT_EQ(metadata.at("run"), "r");
  EXPECT_EQ(metadata.at("recipe"), "mxfp4-sr-rht");
  EXPECT_EQ(metadata.at("phase"), "0");
  EXPECT_EQ(metadata.at("step"), "9");
  EXPECT_EQ(metadata.at("blocks"), "2");

  const std::string layer = "blocks.1.mlp.up";
  (void)run_well({"matmul", "c:" + layer + ".x", "c:" + layer + ".weight", "--a", "mxfp4"});
  (void)run_well({"cast", "c", "cast", "--format", "mxfp4", "--tensor", layer + ".*"});
  const std::string updated = run_well({"update", "c", "u", "--recipe", "sr-bf16", "--weight",
                                        layer + ".weight", "--grad", layer + ".dw"});
  EXPECT_NE(updated.find(layer + ".weight"), std::string::npos) << updated;
  const Json noise = Json::parse(run_well({"noise", "c", "n", "--recipe", "gaussws-all", "--weight",
                                           layer + ".weight", "--grad", layer + ".dw", "--json"}));
  EXPECT_EQ(noise.at("parameter"), layer + ".weight");
  const std::string dw = layer + ".dw";
  const Json reduced = Json::parse(
      run_well({"reduce", "c", "w", "--recipe", "fp8-lm", "--grad", dw + "," + dw, "--json"}));
  EXPECT_EQ(reduced.at("ranks"), 2);

  const Json inspected = Json::parse(
      run_well({"inspect", "c", "--format", "mxfp4", "--recipe", "mxfp4-sr-rht", "--json"}));
  std::map<std::string, std::vector<std::string>> operands;
  for (const Json& tensor : inspected.at("files").at(0).at("tensors"))
    for (const Json& use : tensor.at("recipe")) operands[tensor["name"]].push_back(use["operand"]);
  using Names = std::vector<std::string>;
  EXPECT_EQ(operands[layer + ".x"], (Names{"fprop.input", "wgrad.input"}));
  EXPECT_EQ(operands[layer + ".dy"], (Names{"dgrad.grad", "wgrad.grad"}));
  EXPECT_EQ(operands[layer + ".weight"], (Names{"fprop.weight", "dgrad.weight"}));
}

TEST_F(Capture, RefusesInOneLine) {
  train("r");
  expect_refused({"capture", "r", "c", "--layers", "mlp.*"}, 1,
                 {"\"mlp.*\" means no linear layer", "\"blocks.*.mlp.*\""});
  expect_refused({"capture", "r", "c", "--layers", "head", "hed"}, 1,
                 {"\"hed\" means no", "\"head\""});
  expect_refused({"capture", "r", "c", "--layers", "head", "--step", "13"}, 1,
                 {"--step", "13 of a run of 12 steps"});
  expect_refused({"capture", "r", "tiny.txt", "--layers", "head"}, 1, {"tiny.txt"});
  expect_refused({"capture", "absent", "c", "--layers", "head"}, 1, {"absent"});
  write_text(path("other"), "a file of somebody's");
  expect_refused({"capture", "r", "other", "--layers", "head"}, 1, {"other", "a capture"});
  EXPECT_NE(run({"capture", "r", "--layers", "head"}).err.find("OUT is required"),
            std::string::npos);
  EXPECT_FALSE(fs::exists(path("c")));
}

}  // namespace
}  // namespace ng::e2e
