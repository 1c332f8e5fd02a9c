// `update`: an optimizer's steps on a tensor of a file.
#include <cmath>

#include "base/json.h"
#include "io/safetensors.h"
#include "program.h"

namespace ng::e2e {
namespace {

constexpr int64_t kRows = 6, kCols = 40, kSteps = 4;

class Update : public Program {
 protected:
  Update() {
    std::vector<float> w(kRows * kCols), g(kSteps * w.size());
    for (size_t i = 0; i < w.size(); ++i) w[i] = 0.1f * std::sin(0.7f * float(i * i % 977));
    for (size_t i = 0; i < g.size(); ++i) g[i] = std::cos(1.3f * float(i * i % 883));
    io::write_safetensors(path("in"), {{"weight", "F32", {kRows, kCols}, w.data()},
                                       {"grad", "F32", {kSteps, kRows, kCols}, g.data()}});
    io::write_safetensors(path("along"), {{"weight", "F32", {kRows, kCols}, w.data()},
                                          {"direction", "F32", {kRows, kCols}, g.data()}});
  }
  /// A file of a weight (2, 3), zeros, and another tensor.
  void write_with(const std::string& name, const std::string& tensor, std::vector<int64_t> shape,
                  const std::vector<float>& values, const char* dtype = "F32") const {
    const std::vector<float> zeros(6);
    io::write_safetensors(path(name), {{"weight", "F32", {2, 3}, zeros.data()},
                                       {"direction", "F32", {2, 3}, zeros.data()},
                                       {tensor, dtype, std::move(shape), values.data()}});
  }
  [[nodiscard]] std::vector<std::string> words(const std::string& in, const std::string& recipe,
                                               const std::vector<std::string>& more = {}) const {
    std::vector<std::string> args = {"update", in, "out", "--recipe", recipe};
    args.insert(args.end(), more.begin(), more.end());
    return args;
  }
  void refuses(const std::string& in, const std::string& recipe,
               const std::vector<std::string>& more, const std::vector<std::string>& says) const {
    expect_refused(words(in, recipe, more), 1, says);
    EXPECT_FALSE(fs::exists(path("out"))) << "nothing half-written";
  }
};

std::vector<std::string> names_of(const io::Safetensors& file) {
  std::vector<std::string> names;
  for (const io::SafetensorsEntry& entry : file.entries()) names.push_back(entry.name);
  return names;
}

TEST_F(Update, WritesWhatARecipeKeeps) {
  const auto names = [&](const std::string& recipe) {
    (void)run_well(words("in", recipe));
    return names_of(io::Safetensors(path("out")));
  };
  using Names = std::vector<std::string>;
  EXPECT_EQ(names("fp32"), (Names{"step4.weight", "step4.moment1", "step4.moment2"}));
  EXPECT_EQ(names("fp8-lm"),
            (Names{"step4.weight", "step4.weight.codes", "step4.weight.scale", "step4.master",
                   "step4.master.codes", "step4.master.scale", "step4.moment1",
                   "step4.moment1.codes", "step4.moment1.scale", "step4.moment2",
                   "step4.moment2.codes", "step4.moment2.scale"}));
  EXPECT_EQ(names("residual-bf16"),
            (Names{"step4.weight", "step4.weight.codes", "step4.moment1", "step4.moment2",
                   "step4.residual", "step4.residual.codes"}));
  EXPECT_EQ(names("kahan-bf16"),
            (Names{"step4.weight", "step4.weight.codes", "step4.moment1", "step4.moment2",
                   "step4.compensation", "step4.compensation.codes"}));
  write_text(path("sgd.toml"), "optimizer.kind = 'sgd'");
  EXPECT_EQ(names("./sgd.toml"), (Names{"step4.weight", "step4.momentum"}));
}

TEST_F(Update, RecipesOfNoiseAndOfNarrowGradientsUpdateAsTheirRest) {
  write_text(path("noisy.toml"),
             "inherit = 'sr-bf16'\nweight_noise.kind = 'gaussws'\n"
             "gradient = { communicate = 'fp8_e4m3', reduce = 'wire', auto_scale = true }");
  (void)run_well(words("in", "./noisy.toml"));
  const io::Safetensors noisy(path("out"));
  const std::vector<float> with = io::to_floats(noisy.at("step4.weight"));
  (void)run_well(words("in", "sr-bf16"));
  EXPECT_EQ(io::to_floats(io::Safetensors(path("out")).at("step4.weight")), with);
}

TEST_F(Update, SaysWhereNoOverrideMeansTheLayer) {
  const auto said = [&](const std::string& layers) {
    std::ofstream(path("own.toml"))
        << "inherit = 'bf16'\noverride = [{ layers = ['" << layers << "'], linear = 'mxfp4' }]\n";
    const Result result = run(words("in", "own.toml", {"--layer", "blocks.0.attn.q"}));
    EXPECT_EQ(result.code, 0) << result.err;
    return result.err.find("1 override, none of which means it") != std::string::npos;
  };
  EXPECT_TRUE(said("*.mlp.*"));
  EXPECT_FALSE(said("*.attn.*"));
}

TEST_F(Update, ShowsTheStepsThatAreAskedFor) {
  (void)run_well(words("in", "sr-bf16", {"--show", "3,0,1,3"}));
  const io::Safetensors file(path("out"));
  EXPECT_EQ(file.entries().size(), 12u);
  EXPECT_EQ(file.entries().front().name, "step0.weight");
  EXPECT_EQ(file.entries().back().name, "step3.moment2");
  EXPECT_EQ(file.at("step3.weight.codes").dtype, "U16");
  EXPECT_EQ(file.at("step3.weight").shape, (std::vector<int64_t>{kRows, kCols}));
}

TEST_F(Update, JsonSaysEveryStep) {
  const Json json = Json::parse(
      run_well(words("along", "precision-aware-bf16", {"--steps", "3", "--lr", "1e-3", "--json"})));
  ASSERT_EQ(json.at("steps").size(), 3u);
  for (size_t i = 0; i < 3; ++i) {
    const Json& step = json["steps"][i];
    EXPECT_EQ(step.size(), 8u);
    EXPECT_EQ(step.at("step"), i + 1);
    EXPECT_NEAR(step.at("ratio").get<double>(), 1, 1e-2);
    EXPECT_DOUBLE_EQ(step["ratio"].get<double>(),
                     step.at("update_norm").get<double>() / step.at("target_norm").get<double>());
    EXPECT_GT(step.at("alpha_over_lr"), 0.5);
    EXPECT_NEAR(step.at("cosine").get<double>() * step["ratio"].get<double>(),
                step.at("projection").get<double>(), 1e-12);
    EXPECT_GT(step.at("changed"), 0.1);
    EXPECT_LE(step.at("changed"), 1);
  }
  const Json still =
      Json::parse(run_well(words("along", "naive-bf16", {"--lr", "0", "--json"})))["steps"][0];
  EXPECT_EQ(still.at("update_norm"), 0);
  for (const char* undefined : {"alpha_over_lr", "ratio", "projection", "cosine"})
    EXPECT_TRUE(still.at(undefined).is_null()) << undefined;
}

TEST_F(Update, PrintsATable) {
  const std::string text = run_well(words("in", "fp8-lm"));
  for (const char* part : {"blocks.0.mlp.up.weight (6, 40)", "weight fp8_e4m3 scale pow2",
                           "master fp16 scale pow2", "update norm", "cosine", "changed"})
    EXPECT_NE(text.find(part), std::string::npos) << part << " in\n" << text;
}

TEST_F(Update, ThreadsBackendsAndInstructionSetsGiveTheSameBits) {
  for (const char* recipe : {"sr-fp8", "residual-fp8", "precision-aware-bf16", "feedback-bf16",
                             "fp8-lm", "adamw-fp8-states"}) {
    (void)run_well(words("in", recipe, {"--seed", "7", "--tensor-id", "3", "--step", "5"}));
    const std::string bytes = text_of(path("out"));
    for (const std::vector<std::string>& more : std::vector<std::vector<std::string>>{
             {"--threads", "1"}, {"--threads", "3"}, {"--backend", "ref"}, {"--isa", "scalar"}}) {
      std::vector<std::string> args = {"--seed", "7", "--tensor-id", "3", "--step", "5"};
      args.insert(args.end(), more.begin(), more.end());
      (void)run_well(words("in", recipe, args));
      EXPECT_EQ(text_of(path("out")), bytes) << recipe << " " << more[0] << " " << more[1];
    }
  }
}

TEST_F(Update, NumbersOfFlagsAreTakenToTheLastBit) {
  (void)run_well(words("along", "fp32", {"--lr", "0.0010000000474974513"}));
  const std::vector<float> exact = io::to_floats(io::Safetensors(path("out")).at("step1.weight"));
  (void)run_well(words("along", "fp32", {"--lr", "1e-3"}));
  EXPECT_EQ(io::to_floats(io::Safetensors(path("out")).at("step1.weight")), exact);
  const io::Safetensors in(path("along"));
  const std::vector<float> w = io::to_floats(in.at("weight")),
                           u = io::to_floats(in.at("direction"));
  for (size_t i = 0; i < w.size(); ++i) EXPECT_EQ(exact[i], w[i] + 0.001f * u[i]) << i;
  EXPECT_EQ(io::Safetensors(path("out")).metadata().at("lr"), "0.001");
}

TEST_F(Update, KeysAreSeedTensorAndStep) {
  const auto weight = [&](const std::vector<std::string>& more) {
    (void)run_well(words("along", "sr-bf16", more));
    return io::to_floats(io::Safetensors(path("out")).at("step1.weight"));
  };
  const std::vector<float> one = weight({});
  EXPECT_EQ(weight({"--seed", "1", "--tensor-id", "0", "--step", "0"}), one);
  for (const char* flag : {"--seed", "--tensor-id", "--step"}) EXPECT_NE(weight({flag, "2"}), one);
}

TEST_F(Update, RefusesFilesInOneLine) {
  refuses("none", "fp32", {}, {"none", "No such file"});
  fs::copy(path("in"), path("short"));
  fs::resize_file(path("short"), fs::file_size(path("in")) - 100);
  refuses("short", "fp32", {}, {"short"});
  const std::vector<float> three = {1, 2, 3};
  io::write_safetensors(path("bare"), {{"weight", "F32", {1, 3}, three.data()}});
  refuses("bare", "fp32", {}, {"bare", "grad", "is missing", "direction"});
  io::write_safetensors(path("bare"), {{"grad", "F32", {1, 1, 3}, three.data()}});
  refuses("bare", "fp32", {}, {"bare", "weight", "no such tensor"});
  io::write_safetensors(path("bare"), {{"weight", "F32", {3}, three.data()}});
  refuses("bare", "fp32", {}, {"weight", "(3)", "(1, n)"});
  io::write_safetensors(path("bare"), {{"weight", "F32", {1, 0}, three.data()}});
  refuses("bare", "fp32", {}, {"weight", "(1, 0)"});
  io::write_safetensors(path("bare"), {{"weight", "I32", {1, 3}, three.data()}});
  refuses("bare", "fp32", {}, {"weight", "I32"});
  for (const std::vector<int64_t>& shape : {std::vector<int64_t>{1, 3}, {1, 3, 1}, {0, 1, 3}, {}}) {
    io::write_safetensors(path("bare"), {{"weight", "F32", {1, 3}, three.data()},
                                         {"grad", "F32", shape, three.data()}});
    refuses("bare", "fp32", {}, {"bare", "grad", "(steps, 1, 3)"});
  }
  io::write_safetensors(path("bare"), {{"weight", "F32", {1, 3}, three.data()},
                                       {"direction", "F32", {3, 1}, three.data()}});
  refuses("bare", "fp32", {}, {"bare", "direction", "(3, 1)", "(1, 3)"});
  write_with("both", "grad", {1, 2, 3}, std::vector<float>(6));
  refuses("both", "fp32", {}, {"both", "direction", "is beside grad"});
}

TEST_F(Update, RefusesWhatIsNotFinite) {
  const float nan = std::nanf(""), inf = std::numeric_limits<float>::infinity();
  const std::vector<float> fine(6, 1), bad = {1, 2, 3, 4, nan, 6}, huge = {1, inf, 3, 4, 5, 6};
  const std::vector<float> late = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, -inf};
  io::write_safetensors(path("n"), {{"weight", "F32", {2, 3}, bad.data()},
                                    {"direction", "F32", {2, 3}, fine.data()}});
  refuses("n", "fp32", {}, {"n: weight: nan at (1, 1)"});
  io::write_safetensors(path("n"), {{"weight", "F32", {2, 3}, fine.data()},
                                    {"direction", "F32", {2, 3}, huge.data()}});
  refuses("n", "fp32", {}, {"n: direction: inf at (0, 1)"});
  io::write_safetensors(
      path("n"), {{"weight", "F32", {2, 3}, fine.data()}, {"grad", "F32", {2, 2, 3}, late.data()}});
  refuses("n", "fp32", {}, {"n: grad: -inf at (1, 1, 2)"});
  for (const auto& entry : fs::directory_iterator(folder_))
    EXPECT_EQ(entry.path().string().find(".tmp-"), std::string::npos) << entry.path();
}

TEST_F(Update, RefusesStatesAndScalesThatHaveNoPlace) {
  const std::vector<float> six(6, 1.0f);
  write_with("s", "state.moment1", {2, 3}, six);
  refuses("s", "fp32", {}, {"s: state.moment1", "no state"});
  io::write_safetensors(path("s"), {{"weight", "F32", {2, 3}, six.data()},
                                    {"grad", "F32", {1, 2, 3}, six.data()},
                                    {"state.moment3", "F32", {2, 3}, six.data()}});
  refuses("s", "fp32", {}, {"s: state.moment3", "state.moment1 state.moment2"});
  io::write_safetensors(path("s"), {{"weight", "F32", {2, 3}, six.data()},
                                    {"grad", "F32", {1, 2, 3}, six.data()},
                                    {"state.moment1", "F32", {3, 2}, six.data()}});
  refuses("s", "fp32", {}, {"s: state.moment1", "(3, 2)", "(2, 3)"});
  write_with("s", "state.residual", {2, 3}, six);
  refuses("s", "residual-bf16", {}, {"s: state.residual", "1 at (0, 0)", "half an ulp"});
  write_with("s", "weight.scale", {1}, {0.5f});
  refuses("s", "sr-bf16", {}, {"s: weight.scale", "0.5", "bf16"});
  (void)run_well(words("s", "sr-fp8"));
  fs::remove(path("out"));
  for (const float scale : {0.0f, -0.5f, 0.3f}) {
    write_with("s", "weight.scale", {1}, {scale});
    refuses("s", "sr-fp8", {}, {"s: weight.scale", "scale pow2"});
  }
  write_with("s", "weight.scale", {2}, {1, 1});
  refuses("s", "sr-fp8", {}, {"s: weight.scale", "(2)"});
  write_with("s", "weight.scale", {1}, {1}, "I32");
  refuses("s", "sr-fp8", {}, {"s: weight.scale", "I32"});
  write_with("s", "weight.scales", {1}, {1});
  refuses("s", "sr-fp8", {}, {"s: weight.scales", "weight.scale"});
}

TEST_F(Update, RefusesRecipesAndFlagsInOneLine) {
  refuses("in", "sr-bf61", {}, {"sr-bf61", "sr-bf16"});
  write_text(path("bad.toml"), "weights.storrage = 'bf16'");
  refuses("in", "./bad.toml", {}, {"bad.toml", "storrage", "storage"});
  write_text(path("fnuz.toml"), "weights.storage = { element = 'e4m3fnuz', scale = 'pow2' }");
  refuses("in", "./fnuz.toml", {}, {"fnuz.toml: cpu: ", "e4m3fnuz", "another backend"});
  refuses("along", "feedback-bf16", {}, {"feedback-bf16", "momentum_feedback", "direction"});
  refuses("in", "feedback-bf16", {"--beta1", "0"}, {"--beta1", "momentum_feedback"});
  for (const char* layer : {"blocks.0.mlp", "mlp.up", "blocks.x.mlp.up", "blocks.0.mlp.up.wieght",
                            "blocks.0.attn.qkv.", "embeds", "lm_head.weight"})
    refuses("in", "fp32", {"--layer", layer}, {"--layer", layer, "blocks.0.mlp.up"});
  refuses("in", "fp32", {"--layer", "blocks.0.mlp.up.bias"}, {"weight", "(6, 40)", "(1, n)"});
  refuses("in", "fp32", {"--layer", "blocks.4.mlp.up", "--blocks", "4"}, {"--blocks", "4"});
  refuses("in", "fp32", {"--show", "5"}, {"--show", "5", "0 to 4"});
  refuses("in", "fp32", {"--show", "1,-1"}, {"--show", "-1", "0 to 4"});
  refuses("in", "fp32", {"--steps", "5"}, {"--steps", "5 of 4 gradients"});
  refuses("in", "fp32", {"--step", "4294967295"}, {"--step", "4294967295", "2^32"});
  refuses("in", "fp32", {"--heads", "4", "--kv-heads", "3"}, {"--kv-heads", "3", "4 heads"});
  refuses("in", "fp32", {"--backend", "gpu"}, {"gpu", "cpu"});
  for (const std::vector<std::string>& wrong :
       std::vector<std::vector<std::string>>{{"--lr", "nan"},
                                             {"--beta1", "1"},
                                             {"--step", "-1"},
                                             {"--seed", "-1"},
                                             {"--steps", "0"},
                                             {"--show", "1,,2"},
                                             {"--show", "x"},
                                             {"--tensor-id", "1048576"},
                                             {"--layer", ""}})
    expect_refused(words("in", "fp32", wrong), 2, {wrong[0]});
  expect_refused({"update", "in", "out"}, 2, {"--recipe"});
  expect_refused({"update", "in", "--recipe", "fp32"}, 2, {"OUT"});
}

TEST_F(Update, KeepsFilesThatAreNotItsOwn) {
  const std::string before = text_of(path("in"));
  expect_refused({"update", "in", "in", "--recipe", "fp32"}, 1, {"in: is the input"});
  fs::create_symlink(path("in"), path("link"));
  expect_refused({"update", "in", "link", "--recipe", "fp32"}, 1, {"link", "the same file as in"});
  write_text(path("my.toml"), "optimizer.kind = 'sgd'");
  expect_refused({"update", "in", "my.toml", "--recipe", "./my.toml"}, 1, {"my.toml"});
  expect_refused({"update", "along", "in", "--recipe", "fp32"}, 1, {"not known as an update"});
  expect_refused({"update", "in", "no/out", "--recipe", "fp32"}, 1, {"no/out", "no folder"});
  expect_refused({"update", "in", ".", "--recipe", "fp32"}, 1, {"is a folder"});
  EXPECT_EQ(text_of(path("in")), before);
  (void)run_well(words("in", "fp32"));
  (void)run_well(words("in", "sr-bf16"));  // its own again
}

TEST_F(Update, SaysWhatIsNoLongerFinite) {
  const std::vector<float> large(6, 3e38f);
  io::write_safetensors(path("l"), {{"weight", "F32", {2, 3}, large.data()},
                                    {"direction", "F32", {2, 3}, large.data()}});
  const Result result = run(words("l", "fp32", {"--lr", "1", "--json"}));
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_NE(result.err.find("step1.weight holds values that are not finite"), std::string::npos);
  EXPECT_TRUE(Json::parse(result.out)["steps"][0]["update_norm"].is_null()) << result.out;
}

}  // namespace
}  // namespace ng::e2e
