// In which phase of a recipe commands measure, and which layers its tables mean.
#include <fmt/format.h>

#include <set>
#include <sstream>

#include "base/json.h"
#include "io/safetensors.h"
#include "program.h"

namespace ng::e2e {
namespace {

class Phase : public Program {
 protected:
  [[nodiscard]] Json json_of(std::vector<std::string> args) const {
    args.emplace_back("--json");
    const Result result = run(args);
    EXPECT_EQ(result.code, 0) << result.err;
    return Json::parse(result.out);
  }
  [[nodiscard]] std::string notes_of(const std::vector<std::string>& args) const {
    const Result result = run(args);
    EXPECT_EQ(result.code, 0) << result.err;
    return result.err;
  }
  void train_a_run() const {
    (void)run_well({"train", "tiny.toml", "--out", "run", "--recipe", "fp32", "--set",
                    "train.keep_checkpoints=12", "--set", "train.checkpoint_every=6"});
  }
  static constexpr const char* kSaid =
      "recipe nvfp4-late-bf16 has 2 phases, and none was chosen: measured is phase ";
};

TEST_F(Phase, OfEvalAndGenerateIsChosen) {
  train_a_run();
  const auto eval = [&](const std::string& recipe, const std::vector<std::string>& phase = {}) {
    std::vector<std::string> args = {"eval", "run/model", "--data", "tiny.txt", "--recipe", recipe};
    args.insert(args.end(), phase.begin(), phase.end());
    return json_of(args);
  };
  const Json bf16 = eval("bf16"), silent = eval("nvfp4-late-bf16");
  EXPECT_EQ(bf16["phase"], 0);
  EXPECT_EQ(bf16["phases"], Json({0.0}));
  EXPECT_EQ(silent["phase"], 1);
  EXPECT_EQ(silent["phases"], Json({0.0, 0.82}));
  EXPECT_EQ(silent["loss"], bf16["loss"]);
  for (const char* first : {"first", "0", "step:9", "step:1/10"}) {
    const Json measured = eval("nvfp4-late-bf16", {"--phase", first});
    EXPECT_EQ(measured["phase"], 0) << first;
    EXPECT_NE(measured["loss"], bf16["loss"]) << first;
  }
  for (const char* last : {"last", "1", "step:10"})
    EXPECT_EQ(eval("nvfp4-late-bf16", {"--phase", last})["phase"], 1) << last;
  const Json matches = silent["matches"];
  ASSERT_EQ(matches.size(), 2u);
  EXPECT_EQ(matches[0]["key"], "override[1]");
  EXPECT_EQ(matches[0]["blocks"], "-15%:");
  for (const Json& layer : matches[0]["matched"])
    EXPECT_TRUE(layer.get<std::string>().starts_with("blocks.1.")) << layer;
  EXPECT_EQ(matches[1]["start"], 0.82);

  std::vector<std::string> args = {"eval",     "run/model", "--data",
                                   "tiny.txt", "--recipe",  "nvfp4-late-bf16"};
  EXPECT_NE(notes_of(args).find(std::string(kSaid) + "1 (the last of 2: from 82 % of training on)"),
            std::string::npos)
      << notes_of(args);
  args.insert(args.end(), {"--phase", "first"});
  const std::string out = run_well(args);
  EXPECT_NE(out.find("recipe nvfp4-late-bf16, phase 0 (the first of 2: up to 82 % of training)\n"),
            std::string::npos)
      << out;
  EXPECT_NE(out.find("override[1] (blocks = \"-15%:\") means: "), std::string::npos) << out;

  const Json text = json_of({"generate", "run/model", "--prompt", "the", "--tokens", "3",
                             "--recipe", "nvfp4-late-bf16", "--phase", "first"});
  EXPECT_EQ(text["phase"], 0);
  EXPECT_EQ(text["recipe"], "nvfp4-late-bf16");
  const auto generated = [&](const std::vector<std::string>& numbers) {
    std::vector<std::string> command = {"generate", "run/model", "--prompt",
                                        "the",      "--tokens",  "3"};
    command.insert(command.end(), numbers.begin(), numbers.end());
    return notes_of(command);
  };
  const std::string in_words = generated({"--recipe", "nvfp4-late-bf16", "--phase", "first"});
  for (const char* said : {"in the numbers of nvfp4-late-bf16, phase 0 (the first of 2: up to",
                           "override[1] (blocks = \"-15%:\") means: "})
    EXPECT_NE(in_words.find(said), std::string::npos) << in_words;
  EXPECT_EQ(generated({"--recipe", "nvfp4-late-bf16"}).find("in the numbers of"), std::string::npos)
      << "the note on phases says so";
  EXPECT_EQ(generated({"--phase", "0"}), "narrowgauge: note: in the numbers of fp32\n");
  EXPECT_EQ(generated({}), "");
}

TEST_F(Phase, ThatIsNoneIsRefused) {
  (void)run_well({"train", "tiny.toml", "--out", "run", "--set", "train.steps=1"});
  const auto refused = [&](const std::string& phase, const std::string& said) {
    expect_refused({"eval", "run/model", "--data", "tiny.txt", "--recipe", "nvfp4-late-bf16",
                    "--phase", phase},
                   1, {"--phase: " + phase, said});
  };
  refused("2", "recipe nvfp4-late-bf16 has phases 0 to 1, the last of which begins at 82 % of");
  refused("late", "first, last, a number from 0 on, step:S or step:S/N");
  refused("step:2", "a step from 0 to 1");
  expect_refused({"bench", "step", "--recipe", "nvfp4-late-bf16", "--phase", "step:3"}, 1,
                 {"step:3 of how many?"});
  expect_refused({"recipes", "nvfp4-late-bf16", "--phase", "first"}, 2, {"--phase", "--model"});
  expect_refused(
      {"export", "run/model", "m.gguf", "--to", "gguf", "--type", "bf16", "--phase", "first"}, 2,
      {"--phase", "--weights trained"});
  expect_refused({"study", "stability", "--phase", "first"}, 1, {"--phase"});
  EXPECT_FALSE(fs::exists(path("studies")));
}

TEST_F(Phase, OfStepsIsTheFirstOrTheChosen) {
  (void)run_well({"train", "tiny.toml", "--out", "run", "--set", "train.steps=1"});
  const auto bench = [&](const std::vector<std::string>& more) {
    std::vector<std::string> args = {"bench", "step", "--model", "run/model", "--batch",   "1",
                                     "--seq", "32",   "--steps", "1",         "--threads", "1"};
    args.insert(args.end(), more.begin(), more.end());
    return args;
  };
  const Json first = json_of(bench({"--recipe", "nvfp4-late-bf16"}));
  EXPECT_EQ(first["phase"], 0);
  EXPECT_EQ(first["phases"].size(), 2u);
  const Json last = json_of(bench({"--recipe", "nvfp4-late-bf16", "--phase", "last"}));
  EXPECT_EQ(last["phase"], 1);
  EXPECT_NE(first["first_loss"], last["first_loss"]);
  EXPECT_EQ(last["first_loss"], json_of(bench({"--recipe", "bf16"}))["first_loss"]);
  EXPECT_NE(notes_of(bench({"--recipe", "nvfp4-late-bf16"})).find(std::string(kSaid) + "0 ("),
            std::string::npos);
  EXPECT_NE(run_well(bench({"--recipe", "nvfp4-late-bf16", "--phase", "last"}))
                .find("recipe nvfp4-late-bf16, phase 1 (the last of 2"),
            std::string::npos);

  const std::vector<float> ones(64 * 64, 1);
  io::write_safetensors(path("l"), {{"weight", "F32", {64, 64}, ones.data()},
                                    {"input", "F32", {64, 64}, ones.data()}});
  const std::vector<std::string> linear = {"linear", "l", "out", "--recipe", "nvfp4-late-bf16"};
  EXPECT_NE(notes_of(linear).find(std::string(kSaid) + "0 ("), std::string::npos)
      << notes_of(linear);

  const Json layers = json_of({"recipes", "nvfp4-late-bf16", "--model", "run/model", "--phase",
                               "last", "--batch", "1", "--seq", "16"});
  EXPECT_EQ(layers["phase"], 1);
  ASSERT_EQ(layers["phases"].size(), 1u);
  EXPECT_EQ(layers["phases"][0]["phase"], 1);
}

// The student's: a recipe that ends in BF16 seems to be BF16 at a late checkpoint.
TEST_F(Phase, OfGradientsIsSaidAndChosen) {
  train_a_run();
  const auto gradients = [&](const std::vector<std::string>& more) {
    std::vector<std::string> args = {
        "study",   "gradients", "run",   "--steps", "12",    "--recipes", "bf16,./late.toml",
        "--draws", "2",         "--out", "g",       "--json"};
    args.insert(args.end(), more.begin(), more.end());
    return Json::parse(run_well(args));
  };
  write_text(path("late.toml"), "inherit = 'mxfp4-nr'\nphase = [{start = 0.8, linear = 'bf16'}]\n");
  const auto cosines = [](const Json& study) {
    std::set<double> values;
    for (const Json& table : study["sections"][0]["tables"])
      if (table["table"] == "cosine")
        for (const Json& value : table["values"]) values.insert(value["value"].get<double>());
    return values;
  };
  const Json late = gradients({}), early = gradients({"--phase", "first"});
  EXPECT_EQ(cosines(late).size(), 1u) << "late is BF16 at step 12";
  EXPECT_EQ(cosines(early).size(), 2u);
  ASSERT_EQ(late["phase"].size(), 2u);
  EXPECT_EQ(late["phase"][1]["recipe"], "late");
  EXPECT_EQ(late["phase"][1]["step"], 12);
  EXPECT_EQ(late["phase"][1]["phase"], 1);
  EXPECT_EQ(early["phase"][1]["phase"], 0);
  const auto text = [](const Json& study) { return study["sections"][0]["text"].dump(); };
  EXPECT_NE(
      text(late).find(
          "in the phase that training has at the step, since no --phase was given: late at step "
          "12 in phase 1 (the last of 2: from 80 % of training on)"),
      std::string::npos)
      << text(late);
  EXPECT_NE(text(early).find("where --phase first says: late at step 12 in phase 0"),
            std::string::npos);
  EXPECT_NE(text(late).find("late: phase[1] (from 80 % of training on) changes: "),
            std::string::npos)
      << text(late);
  const Json second = gradients({"--phase", "1"});
  EXPECT_EQ(second["phase"][0]["phase"], 0) << "bf16 has no other";
  EXPECT_EQ(second["phase"][1]["phase"], 1);
  EXPECT_NE(text(second).find("In their only phase: bf16."), std::string::npos) << text(second);
  expect_refused({"study", "gradients", "run", "--recipes", "bf16,fp32", "--phase", "1"}, 1,
                 {"--phase: 1: 0, the only one of recipe bf16"});
  expect_refused({"study", "gradients", "run", "--recipes", "bf16,./late.toml", "--phase", "2"}, 1,
                 {"--phase: 2: recipe late has phases 0 to 1"});
}

TEST_F(Phase, OfAnExportAreItsCodes) {
  write_text(path("late.toml"), "linear = 'mxfp4'\nphase = [{start = 0.5, linear = 'bf16'}]\n");
  (void)run_well(
      {"train", "tiny.toml", "--out", "run", "--recipe", "late.toml", "--set", "train.steps=2"});
  const auto exported = [](const std::string& out, const std::string& phase) {
    std::vector<std::string> args = {"export", "run/model", out,         "--to",   "gguf",
                                     "--type", "mxfp4",     "--weights", "trained"};
    if (!phase.empty()) args.insert(args.end(), {"--phase", phase});
    return args;
  };
  const Json first = json_of(exported("first.gguf", "step:0"));
  EXPECT_EQ(first["phase"], 0);
  EXPECT_EQ(first["recipe"], "late");
  const Result last = run(exported("last.gguf", ""));
  EXPECT_EQ(last.code, 1);
  for (const char* part :
       {"recipe late, phase 1 (the last of 2: ",
        "fprop's weight is bf16, which mxfp4 does not hold: ", ", or another --phase"})
    EXPECT_NE(last.err.find(part), std::string::npos) << last.err;
  EXPECT_FALSE(fs::exists(path("last.gguf")));
}

TEST_F(Phase, OfValidationIsInTheMetricsAndOnTheScreen) {
  const std::string out =
      run_well({"train", "tiny.toml", "--out", "run", "--recipe", "nvfp4-late-bf16"});
  std::istringstream lines(text_of(path("run/metrics.jsonl")));
  std::vector<int> phases;
  for (std::string line; std::getline(lines, line);)
    if (const Json json = Json::parse(line); json.contains("val_loss"))
      phases.push_back(json["phase"].get<int>());
  EXPECT_EQ(phases, (std::vector<int>{0, 1}));
  for (const char* said :
       {"override[1] (blocks = \"-15%:\") means: ", "phase[1] (from 82 % of training on) changes: ",
        "  in phase 0\n", "in the numbers of nvfp4-late-bf16, phase 1 (the last of 2",
        ", forward in BF16\n", "\n  validation "})
    EXPECT_NE(out.find(said), std::string::npos) << said << " in\n" << out;
  for (const auto& [recipe, is_said] :
       {std::pair("mxfp4-sr-rht", true), {"bf16", false}, {"nvfp4", false}}) {
    const std::string all = run_well(
        {"train", "tiny.toml", "--set", "train.steps=1", "--out", recipe, "--recipe", recipe});
    EXPECT_EQ(all.find(fmt::format("in the numbers of {}, forward in BF16\n", recipe)) !=
                  std::string::npos,
              is_said)
        << all;
  }
}

TEST_F(Phase, ThatChangesNothingIsWarnedOf) {
  write_text(path("mine.toml"), "inherit = 'bf16'\nphase = [{start = 0.8, linear = 'bf16'}]\n");
  const std::string said =
      "narrowgauge: note: phase[1]: changes nothing: from 80 % of training on all layers stay in "
      "the numbers of the phase before\n";
  EXPECT_EQ(notes_of({"train", "tiny.toml", "--out", "run", "--recipe", "mine.toml", "--set",
                      "train.steps=1"}),
            said);
  EXPECT_EQ(
      notes_of({"recipes", "mine.toml", "--model", "run/model", "--batch", "1", "--seq", "16"}),
      said);
}

class Patterns : public Program {
 protected:
  void write_recipe(const std::string& override_) const {
    write_text(path("mine.toml"), "inherit = 'mxfp4-nr'\noverride = [{" + override_ + "}]\n");
  }
};

TEST_F(Patterns, ThatMeanNoLayerAreRefusedByEveryCommand) {
  (void)run_well({"train", "tiny.toml", "--out", "run", "--set", "train.steps=1"});
  write_recipe("layers = ['attn.*'], linear = 'bf16'");
  const std::vector<std::vector<std::string>> commands = {
      {"train", "tiny.toml", "--out", "new", "--recipe", "mine.toml"},
      {"compare", "tiny.toml", "--out", "new", "--recipes", "mine.toml"},
      {"eval", "run/model", "--data", "tiny.txt", "--recipe", "mine.toml"},
      {"generate", "run/model", "--prompt", "a", "--recipe", "mine.toml"},
      {"bench", "step", "--model", "run/model", "--recipe", "mine.toml"},
      {"plan", "run/model", "--ranks", "2", "--recipe", "mine.toml"},
      {"export", "run/model", "m.gguf", "--to", "gguf", "--type", "mxfp4", "--weights", "trained",
       "--recipe", "mine.toml"},
      {"recipes", "mine.toml", "--model", "run/model"}};
  for (const std::vector<std::string>& command : commands) {
    const Result result = run(command);
    EXPECT_EQ(result.code, 1) << command[0] << result.err;
    EXPECT_NE(result.err.find("override[1].layers: \"attn.*\" means no layer: "
                              "\"blocks.*.attn.*\", which means 8 layers of this model"),
              std::string::npos)
        << command[0] << ": " << result.err;
  }
  EXPECT_FALSE(fs::exists(path("new/run.toml")));
  EXPECT_FALSE(fs::exists(path("m.gguf")));
  const std::string tensors = "run/model/model.safetensors";
  const std::vector<std::vector<std::string>> without_model = {
      {"recipes", "mine.toml"},
      {"inspect", tensors, "--recipe", "mine.toml"},
      {"linear", tensors, "out", "--recipe", "mine.toml"},
      {"noise", tensors, "out", "--recipe", "mine.toml"},
      {"reduce", tensors, "out", "--recipe", "mine.toml"},
      {"update", tensors, "out", "--recipe", "mine.toml"}};
  for (const std::vector<std::string>& command : without_model)
    expect_refused(command, 1,
                   {"override[1].layers: \"attn.*\" means no layer: \"blocks.*.attn.*\", which "
                    "means 48 layers of a Llama of 12 blocks"});
  write_recipe("optional = true, layers = ['attn.*'], linear = 'bf16'");
  const std::string out = run_well(
      {"train", "tiny.toml", "--out", "new", "--recipe", "mine.toml", "--set", "train.steps=1"});
  EXPECT_NE(out.find("override[1] (layers = [\"attn.*\"]) means: no layer"), std::string::npos)
      << out;
}

}  // namespace
}  // namespace ng::e2e
