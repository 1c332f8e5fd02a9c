// `inspect`: facts, histogram, formats compared and recommended.
#include <cmath>
#include <limits>
#include <map>

#include "base/json.h"
#include "io/safetensors.h"
#include "program.h"

namespace ng::e2e {
namespace {

class Inspect : public Program {
 protected:
  // A file of one tensor "x".
  void write(const std::string& name, const std::vector<int64_t>& shape,
             const std::vector<float>& x) const {
    io::write_safetensors(path(name), {{"x", "F32", shape, x.data()}});
  }
  [[nodiscard]] Json tensor(std::vector<std::string> args) const {
    args.insert(args.begin(), "inspect");
    args.emplace_back("--json");
    const Result result = run(args);
    EXPECT_EQ(result.code, 0) << result.err;
    return Json::parse(result.out).at("files").at(0).at("tensors").at(0);
  }
  /// `bit_widths` of a run's last step.
  [[nodiscard]] Json last_bit_widths(const std::string& run_folder) const {
    Json last;
    std::istringstream lines(text_of(path(run_folder) / "metrics.jsonl"));
    for (std::string line; std::getline(lines, line);)
      if (const Json json = Json::parse(line); json.contains("bit_widths"))
        last = json["bit_widths"];
    return last;
  }
};

TEST_F(Inspect, FactsAndBinades) {
  write("in", {2, 4}, {1, -3, 0, 0.75f, 2, 0, -0.5f, 1.5f});
  const Json x = tensor({"in", "--format", "mxfp4"});
  EXPECT_EQ(x.at("values"), 8);
  EXPECT_EQ(x.at("zeros"), 2);
  EXPECT_EQ(x.at("min"), -3);
  EXPECT_EQ(x.at("max"), 2);
  EXPECT_EQ(x.at("amax"), 3);
  EXPECT_DOUBLE_EQ(x.at("mean").get<double>(), 1.75 / 8);
  EXPECT_DOUBLE_EQ(x.at("rms").get<double>(), std::sqrt((1 + 9 + .5625 + 4 + .25 + 2.25) / 8));
  EXPECT_EQ(x.at("binades"), (Json{{"-1", 2}, {"0", 2}, {"1", 2}}));
}

// The worked block of formats.md §3.5: floor saturates 7 and -5 becomes -4, the others give 8.
TEST_F(Inspect, ShowsTheRuleOfCastsAndEveryOther) {
  std::vector<float> x(32, 0.0f);
  const float first[] = {7, -2.5f, 0.3f, 0.75f, -5, 0.2f, 1.25f, -0.1f};
  std::copy(std::begin(first), std::end(first), x.begin());
  write("in", {1, 32}, x);
  const Json one = tensor({"in", "--format", "mxfp4"}).at("formats").at(0);
  double error = 0, signal = 0;
  const float q[] = {6, -2, 0.5f, 1, -4, 0, 1, 0};
  for (int i = 0; i < 8; ++i) {
    error += std::pow(double(q[i]) - double(first[i]), 2);
    signal += double(first[i]) * double(first[i]);
  }
  EXPECT_EQ(one.at("scale_rule"), "floor");
  EXPECT_NEAR(one.at("sqnr_db").get<double>(), -10 * std::log10(error / signal), 1e-9);
  EXPECT_EQ(one.at("saturation"), 1.0 / 32);
  EXPECT_EQ(one.at("underflow"), 2.0 / 8);
  EXPECT_EQ(one.at("max_abs_error"), 1);
  EXPECT_EQ(one.at("rules").at(0).at("scale_rule"), "floor");
  EXPECT_GT(one["rules"].size(), 2u);
  // All are 7.9, which floor's scale saturates: what cast does stands first, what is better below.
  write("in", {1, 32}, std::vector<float>(32, 7.9f));
  const Json all = tensor({"in", "--format", "mxfp4"}).at("formats").at(0);
  EXPECT_EQ(all.at("scale_rule"), "floor");
  double best = 0;
  for (const Json& rule : all.at("rules")) best = std::max(best, rule.at("sqnr_db").get<double>());
  EXPECT_GT(best, all.at("sqnr_db").get<double>());
  const Json cast = Json::parse(run_well({"cast", "in", "out", "--format", "mxfp4", "--json"}));
  EXPECT_EQ(cast.at("files").at(0).at("tensors").at(0).at("sqnr_db"), all["sqnr_db"]);
  EXPECT_NE(run_well({"inspect", "in", "--format", "mxfp4"}).find(", best"), std::string::npos);
}

TEST_F(Inspect, AModelAndARunHaveASummaryAndAPage) {
  ASSERT_EQ(run({"train", "tiny.toml", "--out", "r", "--set", "train.steps=2"}).code, 0);
  const Json model = Json::parse(
      run_well({"inspect", "r", "--format", "mxfp4,nvfp4", "--recipe", "mxfp4-sr-rht", "--json"}));
  EXPECT_TRUE(model.at("model").at("architecture").get<std::string>().starts_with("llama: 2"));
  EXPECT_GT(model["model"].at("parameters"), 90000);
  EXPECT_EQ(model["model"].at("dtypes").at(0).at("dtype"), "F32");
  EXPECT_EQ(model["model"]["bytes"], model["model"]["values"].get<int64_t>() * 4);
  std::map<std::string, Json> operands;
  for (const Json& tensor : model.at("files").at(0).at("tensors"))
    for (const Json& use : tensor.at("recipe"))
      operands[use.at("layer").get<std::string>() + ' ' + use.at("operand").get<std::string>()] =
          use;
  const Json& up = operands.at("blocks.1.mlp.up dgrad.weight");
  EXPECT_NE(up.at("format").get<std::string>().find("mxfp4"), std::string::npos) << up;
  EXPECT_EQ(operands.count("blocks.1.attn.q fprop.weight"), 1u);
  EXPECT_EQ(run_well({"inspect", "r", "--format", "mxfp4"}).substr(0, 5), "model");
  const std::string some = run_well({"inspect", "r", "--format", "mxfp4", "--tensor", "*up_proj*"});
  EXPECT_NE(some.find("\ninspected   2 of 20 tensors, "), std::string::npos) << some;
  EXPECT_NE(some.find(" values: those that match *up_proj*\n"), std::string::npos) << some;

  const std::string said = run_well({"inspect", "r/model", "--format", "mxfp4,nvfp4", "--recipe",
                                     "mxfp4-sr-rht", "--out", "page.html"});
  EXPECT_NE(said.find("page.html: "), std::string::npos) << said;
  const std::string html = text_of(path("page.html"));
  for (const char* word : {" src=", "<link", "@import", "url("})
    EXPECT_EQ(html.find(word), std::string::npos) << word;
  const std::string open = "id=\"data\">";
  const size_t begin = html.find(open) + open.size();
  const Json page = Json::parse(html.substr(begin, html.find("</script>", begin) - begin));
  ASSERT_EQ(page.at("sections").size(), 4u);
  EXPECT_EQ(page["sections"][3]["choices"].size(), page["sections"][1]["table"]["rows"].size());
  (void)run_well({"inspect", "r", "--format", "mxfp4", "--out", "page.html"});  // its own again
  write_text(path("notes.html"), "somebody's");
  expect_refused({"inspect", "r", "--format", "mxfp4", "--out", "notes.html"}, 1, {"notes.html"});
  expect_refused({"inspect", "r", "--out", "r/model/model.safetensors"}, 1, {"model.safetensors"});
}

TEST_F(Inspect, RecommendsTheFewestBitsThatAreGoodEnough) {
  std::vector<float> x(64 * 64);
  for (size_t i = 0; i < x.size(); ++i) x[i] = std::sin(0.37f * static_cast<float>(i * i % 1009));
  write("in", {64, 64}, x);
  const Json all = tensor({"in"});
  for (const auto& [level, name] : all.at("recommended").items()) {
    double bits = 99;
    for (const Json& one : all.at("formats"))
      if (one.at("sqnr_db").get<double>() >= std::stod(level) &&
          one.at("underflow").get<double>() <= 0.25 && one.at("saturation").get<double>() <= 0.05)
        bits = std::min(bits, one.at("bits_per_value").get<double>());
    for (const Json& one : all.at("formats"))
      EXPECT_TRUE(one.at("format") != name || one.at("bits_per_value") == bits) << level;
  }
  const std::string text = run_well({"inspect", "in"});
  for (const char* part : {"Cheapest for", "2^-1", "mxfp6_e2m3", "normal in every block"})
    EXPECT_NE(text.find(part), std::string::npos) << part;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    const auto columns =
        std::count_if(line.begin(), line.end(), [](char c) { return (uint8_t(c) & 0xC0) != 0x80; });
    EXPECT_LE(columns, 100) << line;
    for (const char c : line) EXPECT_GE(static_cast<uint8_t>(c), 0x20) << "no control characters";
  }
}

// One column holds all the power: what turns the other values into zeros has 30 dB too.
TEST_F(Inspect, RecommendsNothingThatLosesTheValues) {
  std::vector<float> x(64 * 64);
  for (size_t i = 0; i < x.size(); ++i) x[i] = std::sin(static_cast<float>(i));
  for (size_t i = 0; i < x.size(); i += 64) x[i] = 3000;
  write("in", {64, 64}, x);
  const Json all = tensor({"in", "--format", "int4,fp8_e4m3"});
  EXPECT_GT(all.at("formats").at(0).at("sqnr_db"), 30);
  EXPECT_EQ(all.at("recommended").at("30"), "fp8_e4m3");
  const std::string text = run_well({"inspect", "in", "--format", "int4,fp8_e4m3"});
  EXPECT_NE(text.find("Passed over: int4"), std::string::npos) << text;
}

TEST_F(Inspect, CountsTheBitsOfAllScales) {
  write("in", {8, 4}, std::vector<float>(32, 1.5f));
  const Json formats = tensor({"in", "--format", "uint4,mxfp4,nvfp4,int4"}).at("formats");
  EXPECT_EQ(formats.at(0).at("bits_per_value"), 4 + (32 + 8) / 4.0) << "scale and zero point a row";
  EXPECT_EQ(formats.at(1).at("bits_per_value"), 4 + 8 / 4.0) << "blocks end with their row";
  EXPECT_EQ(formats.at(2).at("bits_per_value"), 4 + 8 / 4.0 + 32 / 32.0) << "two levels";
  EXPECT_EQ(formats.at(3).at("bits_per_value"), 4 + 32 / 4.0) << "a scale a row";
}

TEST_F(Inspect, TensorsWithoutUsefulValues) {
  const float inf = std::numeric_limits<float>::infinity();
  const float special[] = {std::nanf(""), inf, -inf, 0};
  io::write_safetensors(path("in"), {{"special", "F32", {4}, special},
                                     {"empty", "F32", {0, 5}, special},
                                     {"scalar", "F32", {}, special + 3},
                                     {"integers", "I64", {1}, special}});
  const Result result = run({"inspect", "in"});
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_NE(result.out.find("NaN 1  infinite 2"), std::string::npos) << result.out;
  EXPECT_EQ(result.err,
            "narrowgauge: note: in: 1 tensor without floating-point values skipped: integers\n");
  EXPECT_EQ(tensor({"in", "--tensor", "special"}).at("inf"), 2);
}

TEST_F(Inspect, SaysWhatIsNotThere) {
  std::vector<float> x(32, 1.0f);
  x[3] = std::nanf("");
  write("in", {1, 32}, x);
  const Result nan = run({"inspect", "in", "--format", "mxfp4,mxfp4"});
  EXPECT_NE(nan.out.find(" ?\n"), std::string::npos) << nan.out;
  EXPECT_EQ(nan.out.find("\n  b"), std::string::npos) << "mxfp4 twice: " << nan.out;
  write("in", {2}, {0, 0});
  EXPECT_NE(run_well({"inspect", "in"}).find("amax 0 "), std::string::npos);
}

TEST_F(Inspect, ManyFiles) {
  fs::create_directory(path("d"));
  write("d/a.safetensors", {2}, {1, 2});
  write("d/b.safetensors", {2}, {3, 4});
  write_text(path("d/notes.txt"), "no tensors");
  for (const char* what : {"d", "d/*.safetensors", "d/?.safetensors"}) {
    const Json files = Json::parse(run_well({"inspect", what, "--json"})).at("files");
    ASSERT_EQ(files.size(), 2U) << what;
    EXPECT_EQ(files.at(1).at("tensors").at(0).at("max"), 4);
  }
}

// What metrics.jsonl says of the last step, read back from its checkpoint.
TEST_F(Inspect, BitWidthsOfACheckpoint) {
  for (const char* recipe : {"gaussws-all", "nipq"}) {
    SCOPED_TRACE(recipe);
    (void)run_well({"train", "tiny.toml", "--out", recipe, "--recipe", recipe});
    const std::string folder = std::string(recipe) + "/checkpoints/step-00000012";
    const std::vector<std::string> args = {"inspect",      folder,     "--tensor",
                                           "weight.*.b_i", "--format", "fp8_e4m3"};
    std::vector<std::string> with_json = args;
    with_json.emplace_back("--json");
    const Json file = Json::parse(run_well(with_json)).at("files").at(0);
    const Json& learned = file.at("bit_widths");
    EXPECT_EQ(learned.at("recipe"), recipe);
    const Json figures = last_bit_widths(recipe);
    ASSERT_EQ(learned.at("layers").size(), figures.size());
    EXPECT_EQ(file.at("tensors").size(), figures.size()) << "still shown";
    const std::string text = run_well(args);
    for (const Json& layer : learned.at("layers")) {
      const auto name = layer.at("layer").get<std::string>();
      for (const auto& [key, value] : figures.at(name).items()) EXPECT_EQ(layer.at(key), value);
      ASSERT_EQ(layer.at("b_t").size(), layer.at("blocks").at(0)) << name;
      double most = 0;
      for (const Json& row : layer.at("b_t")) {
        EXPECT_EQ(row.size(), layer.at("blocks").at(1)) << name;
        for (const Json& b_t : row) most = std::max(most, b_t.get<double>());
      }
      EXPECT_EQ(most, figures.at(name).at("max")) << name;
      EXPECT_NE(text.find("\n  " + name + " "), std::string::npos) << text;
      EXPECT_EQ(layer.contains("clip"), std::string(recipe) == "nipq") << name;
    }
    EXPECT_EQ(text.find("clip") != std::string::npos, std::string(recipe) == "nipq") << text;
    EXPECT_NE(text.find("5 bits or fewer"), std::string::npos) << text;
  }
}

TEST_F(Inspect, ARecipeIsTakenInThePhaseThatWasChosen) {
  (void)run_well({"train", "tiny.toml", "--out", "r"});
  const auto formats = [&](std::vector<std::string> more) {
    std::vector<std::string> args = {"inspect",  "r",        "--format",        "mxfp4", "--tensor",
                                     "*q_proj*", "--recipe", "nvfp4-late-bf16", "--json"};
    args.insert(args.end(), more.begin(), more.end());
    const auto result = run(args);
    EXPECT_EQ(result.err.find("none was chosen") != std::string::npos, more.empty());
    const Json json = Json::parse(result.out);
    EXPECT_EQ(json["numbers"]["phases"].size(), 2u);
    EXPECT_EQ(json["numbers"]["phase"], more.empty() ? 1 : 0);
    return json["files"][0]["tensors"][0]["recipe"][0]["format"].get<std::string>();
  };
  EXPECT_EQ(formats({}), "bf16");
  EXPECT_NE(formats({"--phase", "first"}), "bf16");
  expect_refused({"inspect", "r", "--phase", "first"}, 1, {"--phase: beside no --recipe"});
  EXPECT_NE(formats({"--phase", "step:1"}), "bf16") << "the run says of how many";
  const std::string out = run_well({"inspect", "r", "--format", "mxfp4", "--tensor", "*q_proj*",
                                    "--recipe", "nvfp4-late-bf16", "--phase", "first"});
  EXPECT_NE(out.find("\nrecipe      nvfp4-late-bf16 (hash "), std::string::npos) << out;
  EXPECT_NE(out.find("), phase 0 (the first of 2: up to 82 % of training)\n"), std::string::npos);
}

TEST_F(Inspect, SaysWhereItCannotTellTheLayersOfAModel) {
  (void)run_well({"train", "tiny.toml", "--out", "r", "--set", "train.steps=1"});
  const std::vector<std::string> command = {"inspect",  "r/model",  "--format", "mxfp4",
                                            "--tensor", "*q_proj*", "--recipe", "mxfp4-all"};
  (void)run_well(command);
  const std::string config = path("r/model/config.json");
  std::string text = text_of(config);
  text.replace(text.find("\"llama\""), 7, "\"bertx\"");
  write_text(config, text);
  const Result result = run(command);
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_NE(
      result.err.find("note: the recipe's overrides are not held against the model's layers: "),
      std::string::npos)
      << result.err;
  EXPECT_NE(result.err.find("bertx"), std::string::npos) << result.err;
  fs::remove(config);
  EXPECT_EQ(run(command).err.find("overrides"), std::string::npos) << "tensors alone";
}

TEST_F(Inspect, RefusesARecipeThatMeansNoLayerOfTheModel) {
  (void)run_well({"train", "tiny.toml", "--out", "r"});
  std::ofstream(path("own.toml")) << "inherit = 'mxfp4-all'\n"
                                     "override = [{ layers = ['attn.*'], linear = 'bf16' }]\n";
  for (const char* model : {"r", "r/model"})
    expect_refused({"inspect", model, "--recipe", "own.toml"}, 1,
                   {"override[1].layers", "attn.*", "blocks.*.attn.*"});
}

TEST_F(Inspect, BitWidthsWithoutARecipeAreAsStored) {
  (void)run_well({"train", "tiny.toml", "--out", "run", "--recipe", "gaussws-all"});
  fs::copy_file(path("run/checkpoints/step-00000012/state.safetensors"), path("copy"));
  const std::vector<std::string> args = {"inspect", "copy", "--tensor", "weight.blocks.1.*.b_i"};
  const std::string text = run_well(args);
  EXPECT_NE(text.find("b_i mean"), std::string::npos) << text;
  EXPECT_EQ(text.find("b_t mean"), std::string::npos) << text;
  EXPECT_NE(text.find("\n  blocks.1."), std::string::npos) << text;
  EXPECT_EQ(text.find("\n  blocks.0."), std::string::npos) << "no tensor of it was asked for";
  std::vector<std::string> with_json = args;
  with_json.emplace_back("--json");
  const Json learned = Json::parse(run_well(with_json)).at("files").at(0).at("bit_widths");
  EXPECT_EQ(learned.at("recipe"), nullptr);
  const Json& layer = learned.at("layers").at(0);
  EXPECT_FALSE(layer.contains("b_t") || layer.contains("up_to_5"));
  EXPECT_NEAR(layer.at("b_i").at(0).at(0).get<double>(), 1, 0.1) << "twelve steps from 1";
  write_text(path("run/run.toml"), "[");
  const std::string folder = "run/checkpoints/step-00000012";
  EXPECT_NE(run_well({"inspect", folder, "--tensor", "weight.*.b_i"}).find("b_t mean"),
            std::string::npos)
      << "a checkpoint has its recipe";
}

TEST_F(Inspect, SaysNothingOfBitWidthsWhereThereAreNone) {
  write("in", {2}, {1, 2});
  EXPECT_FALSE(
      Json::parse(run_well({"inspect", "in", "--json"})).at("files").at(0).contains("bit_widths"));
  EXPECT_EQ(run_well({"inspect", "in"}).find("b_t"), std::string::npos);
}

TEST_F(Inspect, RefusesInOneLine) {
  write("in", {2}, {1, 2});
  expect_refused({"inspect", "in", "--format", "mxfp5"}, 1, {"mxfp5", "mxfp4"});
  expect_refused({"inspect", "in", "--format", "mxfp4,"}, 1, {"\"\""});
  expect_refused({"inspect", "in", "--tensor", "y"}, 1, {"in", "\"y\""});
  expect_refused({"inspect", "none"}, 1, {"none", "No such file"});
  expect_refused({"inspect", "*.nothing"}, 1, {"*.nothing", "no file matches"});
  expect_refused({"inspect"}, 2, {"FILES"});
}

}  // namespace
}  // namespace ng::e2e
