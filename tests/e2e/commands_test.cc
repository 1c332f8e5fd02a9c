// Every command does what it says on small things.
#include <algorithm>
#include <chrono>
#include <regex>
#include <thread>

#include "base/json.h"
#include "io/safetensors.h"
#include "program.h"

namespace ng::e2e {
namespace {

using Commands = Program;

// A sample may hold the tabs that its model writes; nothing else of that kind.
void expect_no_control_characters(const std::string& text) {
  for (const char c : text)
    ASSERT_TRUE(c == '\n' || c == '\t' || static_cast<unsigned char>(c) >= 0x20) << "in: " << text;
}

TEST_F(Commands, HelpNamesEveryCommandAndEveryCommandHasHelp) {
  const std::string help = run_well({"--help"});
  for (const char* command : {"train", "eval", "generate", "compare", "trace", "formats", "cast",
                              "update", "recipes", "plan", "bench", "advise", "info"}) {
    EXPECT_NE(help.find(std::string("\n  ") + command), std::string::npos) << command;
    const std::string of_command = run_well({command, "--help"});
    EXPECT_NE(of_command.find("Usage: narrowgauge " + std::string(command)), std::string::npos);
    EXPECT_NE(of_command.find("--isa"), std::string::npos) << command;
  }
  EXPECT_EQ(run_well({"--version"}).substr(0, 12), "narrowgauge ");
}

TEST_F(Commands, TrainWritesAllItsFilesAndTellsOfThem) {
  const std::string out = run_well({"train", "tiny.toml", "--verbose"});
  for (const char* word :
       {"parameters  98,624", "recipe      mxfp4-sr-rht (hash ", "dgrad  mxfp4 stochastic",
        "weights", "moments", "activations", "at the peak",
        "schedule    12 steps of 2 x 2 x 32 = 128", "step 12/12  loss ", "tokens/s",
        "% of FP32 peak", "step 12/12  validation loss ", "gemm fprop", "sample\n",
        "model       runs/tiny/model\n", "metrics     runs/tiny/metrics.jsonl\n"})
    EXPECT_NE(out.find(word), std::string::npos) << word << " in\n" << out;
  expect_no_control_characters(out);
  for (const char* file : {"run.toml", "metrics.jsonl", "checkpoints/step-00000008/run.json",
                           "checkpoints/step-00000012/state.safetensors", "model/config.json",
                           "model/model.safetensors", "model/tokenizer.json"})
    EXPECT_TRUE(fs::is_regular_file(path("runs/tiny") / file)) << file;
  EXPECT_FALSE(fs::exists(path("runs/tiny/checkpoints/step-00000004"))) << "only two are kept";
}

TEST_F(Commands, TrainSaysWhichTwinItIs) {
  const auto head = [&](const std::string& twin, const std::string& recipe = "mxfp4-sr-rht") {
    const std::string out = run_well({"train", "tiny.toml", "--out", "run" + twin, "--recipe",
                                      recipe, "--set", "train.steps=1", "--set", "twin=" + twin});
    return out.substr(0, out.find('\n'));
  };
  EXPECT_EQ(head("0"), "run         tiny.toml into run0, seed 1");
  EXPECT_EQ(head("2"),
            "run         tiny.toml into run2, seed 1, twin 2 (weights and batches of this seed, "
            "other draws of rounding and noise)");
  EXPECT_EQ(head("3", "bf16"),
            "run         tiny.toml into run3, seed 1, twin 3 (the same run as every twin of this "
            "seed: its recipe draws neither rounding nor noise)");
}

TEST_F(Commands, TrainNumbersItsFoldersAndResumesTheNewest) {
  (void)run_well({"train", "tiny.toml", "--set", "train.steps=2"});
  (void)run_well({"train", "tiny.toml", "--set", "train.steps=2"});
  EXPECT_TRUE(fs::exists(path("runs/tiny-2/model")));
  const Result longer = run({"train", "tiny.toml", "--set", "train.steps=3", "--resume"});
  EXPECT_EQ(longer.code, 0);
  EXPECT_NE(longer.err.find("train.steps = 3, but 2 until here"), std::string::npos) << longer.err;
  EXPECT_TRUE(fs::exists(path("runs/tiny-2/checkpoints/step-00000003")));
  EXPECT_FALSE(fs::exists(path("runs/tiny/checkpoints/step-00000003")));
  EXPECT_FALSE(fs::exists(path("runs/tiny-3")));
}

TEST_F(Commands, MetricsAreOneObjectALine) {
  (void)run_well({"train", "tiny.toml", "--out", "run", "--recipe", "fp32"});
  std::istringstream lines(text_of(path("run/metrics.jsonl")));
  int64_t steps = 0, validations = 0;
  for (std::string line; std::getline(lines, line);) {
    const Json json = Json::parse(line);
    steps += json.contains("loss") ? 1 : 0;
    validations += json.contains("val_loss") ? 1 : 0;
  }
  EXPECT_EQ(steps, 12);
  EXPECT_EQ(validations, 2);
}

TEST_F(Commands, EvalGenerateAndTraceAgreeOnTheTrainedModel) {
  (void)run_well({"train", "tiny.toml", "--out", "run", "--recipe", "fp32"});
  // Validation of the run is the last 5 % of the text: 135 of 2700 bytes.
  write_text(path("last.txt"), text_of(path("tiny.txt")).substr(2700 - 135));
  const Json eval = Json::parse(run_well({"eval", "run/model", "--data", "last.txt", "--json"}));
  std::istringstream lines(text_of(path("run/metrics.jsonl")));
  double val_loss = 0;
  for (std::string line; std::getline(lines, line);) {
    const Json json = Json::parse(line);
    if (json.contains("val_loss")) val_loss = json["val_loss"];
  }
  EXPECT_EQ(eval["tokens"], 134);
  EXPECT_NEAR(eval["loss"].get<double>(), val_loss, 1e-9) << "the run's own validation";
  EXPECT_NEAR(eval["perplexity"].get<double>(), std::exp(val_loss), 1e-6);
  EXPECT_NEAR(eval["bits_per_byte"].get<double>(), val_loss / std::log(2.0), 1e-9);
  const Json one =
      Json::parse(run_well({"eval", "run/model", "--data", "last.txt", "--json", "--batch", "1"}));
  EXPECT_EQ(one["loss"], eval["loss"]) << "the batch size is no part of the result";

  const std::string text = run_well(
      {"generate", "run/model", "--prompt", "the quick", "--tokens", "60", "--temperature", "0"});
  const std::string ids =
      run_well({"generate", "run/model", "--prompt-ids", "116,104,101,32,113,117,105,99,107",
                "--ids", "--tokens", "60", "--temperature", "0"});
  EXPECT_EQ(std::count(ids.begin(), ids.end(), ','), 59);
  std::string decoded;
  std::istringstream words(ids);
  for (std::string id; std::getline(words, id, ',');) decoded += static_cast<char>(std::stoi(id));
  EXPECT_EQ(text, decoded + "\n");
  expect_no_control_characters(text);
}

TEST_F(Commands, GenerateIsAFunctionOfItsSeedAndPrintsValidText) {
  (void)run_well({"train", "tiny.toml", "--out", "run", "--set", "train.steps=1"});
  const std::vector<std::string> hot = {
      "generate", "run/model", "--prompt", "a", "--temperature", "3", "--tokens", "300", "--seed"};
  const auto with_seed = [&](const char* seed) {
    std::vector<std::string> args = hot;
    args.emplace_back(seed);
    return run_well(args);
  };
  const std::string first = with_seed("1");
  EXPECT_EQ(first, with_seed("1"));
  EXPECT_NE(first, with_seed("2"));
  EXPECT_NE(first.find("\xEF\xBF\xBD"), std::string::npos) << "an untrained model writes no UTF-8";
  expect_no_control_characters(first);
}

TEST_F(Commands, EvalSaysWhereScalesHaveNoHistory) {
  (void)run_well({"train", "tiny.toml", "--out", "run", "--set", "train.steps=1"});
  const Result result = run({"eval", "run/model", "--data", "tiny.txt", "--recipe", "fp8-delayed"});
  EXPECT_EQ(result.code, 0);
  EXPECT_TRUE(result.err.starts_with("narrowgauge: note: fp8-delayed scales by")) << result.err;
}

TEST_F(Commands, GenerateGivesTheSameAsJson) {
  (void)run_well({"train", "tiny.toml", "--out", "run", "--set", "train.steps=1"});
  std::vector<std::string> args = {"generate", "run/model", "--prompt", "a", "--tokens", "20"};
  const std::string text = run_well(args);
  args.emplace_back("--json");
  const Json json = Json::parse(run_well(args));
  EXPECT_EQ(json["text"].get<std::string>() + "\n", text);
  EXPECT_EQ(json["ids"].size(), 20u);
}

TEST_F(Commands, ModelsAreSavedInTheDtypeOfTheRunFile) {
  (void)run_well({"train", "tiny.toml", "--out", "run", "--set", "train.steps=1", "--set",
                  "train.save_dtype=BF16"});
  const io::Safetensors saved(path("run/model/model.safetensors"));
  for (const io::SafetensorsEntry& entry : saved.entries())
    EXPECT_EQ(entry.dtype, "BF16") << entry.name;
  EXPECT_NE(text_of(path("run/model/config.json")).find("bfloat16"), std::string::npos);
  EXPECT_EQ(text_of(path("run/run.toml")).find("# narrowgauge "), 0u);
  EXPECT_NE(run_well({"eval", "run/model", "--data", "tiny.txt"}).find(" nats per token\n"),
            std::string::npos);
}

TEST_F(Commands, ASignalLeavesNoHalfWrittenFile) {
  const std::vector<float> x(size_t{1} << 22, 1.0f);
  io::write_safetensors(path("in"), {{"x", "F32", {1 << 11, 1 << 11}, x.data()}});
  fs::create_directory(path("out"));
  const auto code_after = [&](const std::vector<int>& signals) {
    Process process({"cast", "in", "out/o", "--format", "mxfp4"}, folder_);
    while (fs::is_empty(path("out"))) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    for (const int signal : signals) process.send(signal);
    const int code = process.wait().code;
    EXPECT_TRUE(fs::is_empty(path("out"))) << signals.front();
    return code;
  };
  EXPECT_EQ(code_after({SIGTERM}), 143);
  ::signal(SIGHUP, SIG_DFL);
  EXPECT_EQ(code_after({SIGHUP}), 129);
  ::signal(SIGHUP, SIG_IGN);  // as nohup starts it
  EXPECT_EQ(code_after({SIGHUP, SIGTERM}), 143);
  ::signal(SIGHUP, SIG_DFL);
}

TEST_F(Commands, GenerateReadsAPromptFromStandardInput) {
  (void)run_well({"train", "tiny.toml", "--out", "run", "--set", "train.steps=1"});
  write_text(path("prompt"), "the quick");
  const std::vector<std::string> rest = {"--tokens", "20", "--temperature", "0"};
  std::vector<std::string> args = {"generate", "run/model", "--prompt", "-"};
  args.insert(args.end(), rest.begin(), rest.end());
  const Result piped = Process(args, folder_, "", "prompt").wait();
  args[3] = "the quick";
  EXPECT_EQ(piped.code, 0) << piped.err;
  EXPECT_EQ(piped.out, run_well(args));
}

TEST_F(Commands, TraceWritesWhatTheGoldenFileHolds) {
  const std::string model = golden("models/llama_tiny");
  const std::string tokens = golden("models/llama_tiny/reference.safetensors");
  EXPECT_EQ(run_well({"trace", model, tokens, "out.safetensors", "--steps", "1"}), "");
  const io::Safetensors traced(path("out.safetensors")), reference(tokens);
  EXPECT_EQ(traced.at("train.loss").shape, std::vector<int64_t>{1});
  EXPECT_EQ(traced.find("step2.lm_head.weight"), nullptr);
  for (const char* name : {"logits", "loss", "grad.lm_head.weight", "step1.lm_head.weight"}) {
    const std::vector<float> have = io::to_floats(traced.at(name));
    const std::vector<float> want = io::to_floats(reference.at(name));
    ASSERT_EQ(have.size(), want.size()) << name;
    for (size_t i = 0; i < have.size(); ++i) ASSERT_NEAR(have[i], want[i], 1e-4) << name << i;
  }
}

TEST_F(Commands, FormatsListsAndDecodes) {
  EXPECT_NE(run_well({"formats"}).find("mxfp4"), std::string::npos);
  const Json facts = Json::parse(run_well({"formats", "e2m1", "--codes", "--json"}));
  EXPECT_EQ(facts["max"], 6.0);
  EXPECT_EQ(facts["codes"], Json::parse("[0,0.5,1,1.5,2,3,4,6,-0.0,-0.5,-1,-1.5,-2,-3,-4,-6]"));
  EXPECT_EQ(Json::parse(run_well({"formats", "mxfp4", "--json"}))["bits_per_value"], 4.25);
  EXPECT_EQ(Json::parse(run_well({"formats", "e5m2", "--codes", "--json"}))["codes"][0x7C], "inf");
}

TEST_F(Commands, RecipesListsAndResolves) {
  const std::string list = run_well({"recipes"});
  EXPECT_NE(list.find("mxfp4-sr-rht"), std::string::npos);
  const std::string one = run_well({"recipes", "mxfp4-sr-rht"});
  EXPECT_NE(one.find("bytes per parameter"), std::string::npos);
  write_text(path("mine.toml"), one);
  for (const auto& [recipe, weights, master, moments, gradients] :
       {std::tuple{"fp8-lm", 1, 2, 3, 1}, {"adam-mini", 4, 0, 4, 4}, {"residual-bf16", 3, 0, 8, 4}})
    EXPECT_EQ(Json::parse(run_well({"recipes", recipe, "--json"}))["bytes_per_parameter"],
              (Json{{"weights", double(weights)},
                    {"master", double(master)},
                    {"moments", double(moments)},
                    {"gradients", double(gradients)}}))
        << recipe;
  const Json original = Json::parse(run_well({"recipes", "mxfp4-sr-rht", "--json"}));
  const Json mine = Json::parse(run_well({"recipes", "./mine.toml", "--json"}));
  expect_refused({"recipes", "./mine.toml", "--backend", "ref"}, 2, {"--backend: goes with"});
  EXPECT_EQ(mine["hash"], original["hash"]) << "what is printed is the same recipe";
  EXPECT_EQ(original["gemms"]["dgrad"]["hadamard"], 64);
  const Json scalar =
      Json::parse(run_well({"recipes", "mxfp4-sr-rht", "--json", "--isa", "scalar"}));
  EXPECT_EQ(scalar["gemms"]["dgrad"]["runs"], "exact on integer dot products");
  EXPECT_EQ(scalar["gemms"]["fprop"]["runs"], "exact on FP32 units");
}

TEST_F(Commands, RecipesMeasuresTheLayersOfAModel) {
  const Json measured = Json::parse(run_well({"recipes", "nvfp4-late-bf16", "--model", "char-gpt",
                                              "--batch", "1", "--seq", "16", "--json"}));
  ASSERT_EQ(measured["phases"].size(), 2u);
  size_t layers = 0;
  for (const Json& kind : measured["phases"][0]["layers"]) {
    layers += kind["layers"].size();
    EXPECT_GT(kind["seconds"], 0.0);
    EXPECT_GT(kind["fp32_seconds"], 0.0);
  }
  EXPECT_EQ(layers, 6u * 4 + 1);
  const std::string text = run_well({"recipes", "mxfp4-all", "--model", "char-gpt", "--batch", "1",
                                     "--seq", "16", "--isa", "scalar"});
  EXPECT_NE(text.find("exact on integer dot products"), std::string::npos);
  EXPECT_NE(text.find("All linear layers"), std::string::npos);
}

TEST_F(Commands, InfoTellsOfTheMachine) {
  const Json info = Json::parse(run_well({"info", "--json", "--isa", "scalar"}));
  EXPECT_EQ(info["isa"], "scalar");
  EXPECT_GE(info["threads"], 1);
  EXPECT_EQ(info["backends"].size(), info["cuda"]["built"] ? 4u : 2u);
  EXPECT_GT(info["peak_flops"], 0.0);
  EXPECT_FALSE(info.at("amx").get<std::string>().empty());
  EXPECT_NE(run_well({"info"}).find("measured peak"), std::string::npos);
}

TEST_F(Commands, ACardIsRefusedInOneLineWhereThereIsNone) {
  const Json cuda = Json::parse(run_well({"info", "--json", "--isa", "scalar"})).at("cuda");
  const bool built = cuda.at("built");
  EXPECT_EQ(cuda.at("architectures").size(), built ? 5u : 0u);
  if (!cuda.at("devices").empty()) GTEST_SKIP() << "there is a card here";
  expect_refused({"train", "tiny.toml", "--out", "run", "--backend", "cuda"}, 1,
                 {"--backend: ", "cuda", built ? "driver" : "not built"});
  EXPECT_FALSE(cuda.at("missing").get<std::string>().empty());
  EXPECT_EQ(cuda.at("products"), Json::array());
  EXPECT_NE(run_well({"info"}).find("--backend cuda"), std::string::npos);
  EXPECT_FALSE(fs::exists(path("run")));
}

TEST_F(Commands, RecipesShowsRoutesOfCardsWhereThereIsNone) {
  const Json cuda = Json::parse(run_well({"info", "--json"})).at("cuda");
  if (!cuda.at("devices").empty()) GTEST_SKIP() << "a card that is measured";
  const std::vector<std::string> command = {"recipes",   "mxfp4-all", "--model",
                                            "gpt2-124m", "--backend", "cuda"};
  std::vector<std::string> as_json = command;
  as_json.emplace_back("--json");
  const Json layer = Json::parse(run_well(as_json)).at("phases").at(0).at("layers").at(0);
  const auto route = [&](const char* gemm, const char* card) {
    return layer.at(gemm).at("cards").at(card);
  };
  EXPECT_EQ(route("fprop", "sm_80").at("route"), "bf16");
  EXPECT_EQ(route("fprop", "sm_90").at("route"), "folded");
  EXPECT_EQ(route("fprop", "sm_90").at("left"), "E5M2 with scales of rows");
  EXPECT_EQ(route("dgrad", "sm_90").at("right"), "E4M3 with scales of rows");
  EXPECT_NE(route("fprop", "sm_90").at("why").get<std::string>().find("mxfp8: "),
            std::string::npos);
  EXPECT_EQ(route("wgrad", "sm_100").at("route"), "mxfp8");
  const std::string text = run_well(command);
  const std::regex row("fprop +mxfp4 +bf16 +folded +folded +mxfp8 +mxfp8\n");
  EXPECT_TRUE(std::regex_search(text, row)) << text;
}

TEST_F(Commands, BenchStepGivesTheKeysThatTheBenchmarksRead) {
  (void)run_well({"train", "tiny.toml", "--out", "run", "--set", "train.steps=1"});
  write_text(folder_ / "probe.json",
             R"({"card": "a card", "sm": 90, "copy_gb_per_s": 4000, "products": [
                 {"mode": "bf16", "tflops": 700}, {"mode": "folded mxfp4", "tflops": 1200}]})");
  const Json bench =
      Json::parse(run_well({"bench", "step", "--model", "run/model", "--recipe", "mxfp4-all",
                            "--batch", "2", "--seq", "32", "--steps", "3", "--threads", "1",
                            "--json", "--isa", "scalar", "--probe", "probe.json"}));
  EXPECT_EQ(bench["isa"], "scalar");
  for (const char* key : {"tokens_per_second", "seconds_per_step", "peak_bytes", "planned_bytes",
                          "percent_of_peak", "parameters"})
    EXPECT_GT(bench[key].get<double>(), 0) << key;
  EXPECT_EQ(bench["threads"], 1);
  for (const char* kind : {"gemm fprop", "quantize", "head and loss", "rest"})
    EXPECT_GT(bench["seconds_by_kind"][kind].get<double>(), 0) << kind;
  EXPECT_NEAR(bench["first_loss"].get<double>(), std::log(256.0), 0.5);
  const Json& limit = bench["limit"];
  EXPECT_EQ(limit["card"], "a card");
  EXPECT_EQ(limit["rates"]["folded"], 1200e12);
  EXPECT_DOUBLE_EQ(bench["share_of_limit"], bench["tokens_per_second"].get<double>() /
                                                limit["tokens_per_second"].get<double>());
}

TEST_F(Commands, BenchGemmComparesWithFp32) {
  const Json bench = Json::parse(run_well({"bench", "gemm", "--shape", "64,48,96", "--formats",
                                           "mxfp4,nvfp4,nvfp4/16x16,bf16/tile32", "--rounds", "1",
                                           "--threads", "1", "--json"}));
  EXPECT_GT(bench["fma_flops"].get<double>(), 0);
  ASSERT_EQ(bench["shapes"].size(), 1u);
  EXPECT_EQ(bench["shapes"][0]["k"], 96);
  for (const char* format : {"fp32", "mxfp4", "nvfp4", "nvfp4/16x16", "bf16/tile32"})
    EXPECT_GT(bench["shapes"][0]["formats"][format]["flops"].get<double>(), 0) << format;
  EXPECT_GT(bench["median_ratio_to_fp32"]["nvfp4"].get<double>(), 0);
}

TEST_F(Commands, BenchKernelsMeasuresBesideACopyAndARead) {
  const Json bench = Json::parse(run_well({"bench", "kernels", "--filter", "mxfp4 along",
                                           "--rounds", "1", "--threads", "1", "--json"}));
  EXPECT_GT(bench["fma_flops"].get<double>(), 0);
  for (const char* footprint : {"cache", "memory"}) {
    const Json& rows = bench[footprint];
    ASSERT_EQ(rows.size(), 7u) << footprint;  // nearest, stochastic, with transform; the rule mse
    EXPECT_EQ(rows[0]["kernel"], "copy");
    EXPECT_EQ(rows[1]["kernel"], "read");
    EXPECT_EQ(rows[2]["kernel"], "encode mxfp4 along");
    for (const Json& row : rows) EXPECT_GT(row["elements_per_second"].get<double>(), 0) << row;
    EXPECT_EQ(rows[3]["kernel"], "encode mxfp4 along hadamard 64");
    EXPECT_NEAR(rows[3]["transform_cost"],
                rows[2]["elements_per_second"].get<double>() /
                        rows[3]["elements_per_second"].get<double>() -
                    1,
                1e-9);
    EXPECT_FALSE(rows[2].contains("transform_cost"));
  }
  const std::string text =
      run_well({"bench", "kernels", "--filter", "amax", "--rounds", "1", "--threads", "1"});
  for (const char* part : {"amax tensor", "amax 1x32", "limits in the L2 cache: copy"})
    EXPECT_NE(text.find(part), std::string::npos) << part;
  expect_refused({"bench", "kernels", "--filter", "zzz"}, 1, {"--filter", "\"zzz\""});
}

TEST_F(Commands, BenchUpdate) {
  const Json bench = Json::parse(run_well({"bench", "update", "--filter", "fp8_e4m3 pow2 residual",
                                           "--rounds", "1", "--threads", "1", "--json"}));
  EXPECT_EQ(bench["threads"], 1);
  for (const char* footprint : {"cache", "memory"}) {
    const Json& updates = bench[footprint]["updates"];
    ASSERT_EQ(updates.size(), 3u) << footprint;
    EXPECT_EQ(updates[0]["update"], "fp32");
    EXPECT_EQ(updates[0]["time_over_fp32"], 1.0);
    EXPECT_EQ(updates[1]["update"], "fp8_e4m3 pow2 residual 8");
    for (const Json& update : updates)
      EXPECT_NEAR(update["share_of_bandwidth"].get<double>(),
                  update["bytes_per_second"].get<double>() /
                      bench[footprint]["bytes_per_second"].get<double>(),
                  1e-9);
  }
  expect_refused({"bench", "update", "--filter", "zzz"}, 1, {"--filter", "\"zzz\""});
}

}  // namespace
}  // namespace ng::e2e
