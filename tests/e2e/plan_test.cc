// `plan`: published volumes, memory of ranks, refusals; and it takes no memory of what it plans.
#include <fmt/format.h>
#include <sys/resource.h>

#include <cmath>

#include "base/json.h"
#include "program.h"

namespace ng::e2e {
namespace {

using Plan = Program;

double gib(const Json& bytes) { return bytes.get<double>() / 0x1p30; }

TEST_F(Plan, PublishedVolumesComeOut) {
  struct Row {
    std::vector<std::string> args;
    double before, after;  // GiB in two digits, errata-2, 38
  };
  for (const Row& row :
       {Row{{"plan", "gpt-7b", "--ranks", "32"}, 37.20, 13.95},
        Row{{"plan", "gpt-13b", "--ranks", "32", "--tensor", "2"}, 34.40, 12.42}}) {
    std::vector<std::string> args = row.args;
    args.emplace_back("--json");
    const Json plan = Json::parse(run_well(args));
    const Json& published = plan["published"]["payload"];
    EXPECT_NEAR(gib(published["total"]), row.after, 0.005) << args[1];
    EXPECT_NEAR(gib(published["baselines"]["fp32+bf16"]["bytes"]), row.before, 0.005) << args[1];
    if (args[1] != "gpt-7b") continue;  // published with a pipeline, or with the vocabulary divided
    EXPECT_EQ(plan["traffic"]["mean_payload"]["total"], published["total"]) << args[1];
  }
}

// With the third row of these volumes.
TEST_F(Plan, TakesNoMemoryOf175B) {
  const auto with_2_gib = [] {
    const rlimit limit{.rlim_cur = rlim_t{2} << 30, .rlim_max = rlim_t{2} << 30};
    ::setrlimit(RLIMIT_AS, &limit);
  };
  const Result least = Process({"formats"}, folder_, "", "/dev/null", with_2_gib).wait();
  if (least.code != 0) GTEST_SKIP() << "sanitizers need more than any limit";
  const Result result = Process({"plan", "gpt-175b", "--ranks", "128", "--tensor", "8"}, folder_,
                                "", "/dev/null", with_2_gib)
                            .wait();
  EXPECT_EQ(result.code, 0) << result.err;
  for (const char* word :
       {"memory at the peak", "moments", "largest micro-batch in 80 GB: ", "sent in a step",
        "fp32+bf16 23.22 GiB", "8.04 GiB", "balance of owned values", "at 1,024 ranks",
        "; 1 micro-batch of each rank in a step\n", "rounded at each of 127 hops",
        "gradient.reduce = \"fp32\": exact in FP32 up to 73 ranks, in FP64 up to 39,268,272,420",
        "if what this recipe leaves wide went as there", "one process", "any time, one"})
    EXPECT_NE(result.out.find(word), std::string::npos) << word << " in\n" << result.out;
}

// FP8-LM's promise: 4,096 tokens on 32 devices of 80 GB, where BF16 does not fit. Without stages
// its 80.1 GB are in 80 GiB.
TEST_F(Plan, SaysWhatFitsOf175B) {
  std::vector<std::string> args = {
      "plan",     "gpt-175b", "--length",        "4096", "--ranks", "32",
      "--tensor", "8",        "--device-memory", "80GB"};
  const std::string text = run_well(args);
  for (const char* word :
       {"BF16 66.1 GB, FP8-LM 40.3 GB, -39 %", "4 x 2048 tokens: FP8-LM 57.7 GB",
        "\"66.1 to 57.7\" (-13 %) is of unlike micro-batches", "not even 1 x 4096 tokens\n"})
    EXPECT_NE(text.find(word), std::string::npos) << word << " in\n" << text;
  args.emplace_back("--json");
  const Json plan = Json::parse(run_well(args));
  EXPECT_EQ(plan["length"], 4096);
  const Json &bf16 = plan["published"]["fits"][0], &fp8 = plan["published"]["fits"][1];
  EXPECT_EQ(bf16["largest_batch"], 0);
  EXPECT_EQ(fp8["bytes"], plan["memory"]["most"]["total"]);
  EXPECT_EQ(fp8["largest_batch"], plan["largest_batch"]);
  EXPECT_LT(fp8["bytes"].get<double>(), bf16["bytes"].get<double>());
  EXPECT_NEAR(bf16["bytes"].get<double>(), 136.2e9, 0.1e9);
  EXPECT_NEAR(fp8["bytes"].get<double>(), 80.1e9, 0.1e9);
  EXPECT_EQ(fp8["largest_batch"], 0);
  args[args.size() - 2] = "80GiB";
  EXPECT_EQ(Json::parse(run_well(args))["published"]["fits"][1]["largest_batch"], 2);
  // 2,048 positions more, which every rank has whole.
  const Json shorter =
      Json::parse(run_well({"plan", "gpt-175b", "--ranks", "32", "--tensor", "8", "--json"}));
  EXPECT_EQ(
      plan["parameters_of_rank"].get<int64_t>() - shorter["parameters_of_rank"].get<int64_t>(),
      2048 * 12288);
}

// Weights, masters and states of all stages are those of a plan without stages.
TEST_F(Plan, StagesOfAPipelineDivideTheBlocks) {
  const auto plan = [&](std::vector<std::string> more) {
    more.insert(more.begin(), {"plan", "char-gpt", "--recipe", "fp32", "--length", "64",
                               "--accumulate", "6", "--json"});
    return Json::parse(run_well(more));
  };
  const Json whole = plan({"--ranks", "1"}), staged = plan({"--ranks", "3", "--pipeline", "3"});
  EXPECT_FALSE(whole.contains("pipeline"));
  EXPECT_FALSE(staged.contains("many_ranks"));
  const Json& stages = staged["pipeline"]["stages"];
  ASSERT_EQ(stages.size(), 3u);
  int64_t parameters = 0, moments = 0;
  for (size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(stages[i]["first_block"], 2 * i);
    EXPECT_EQ(stages[i]["blocks"], 2);
    EXPECT_EQ(stages[i]["in_flight"], 3 - i);
    EXPECT_EQ(stages[i]["sent_forward"], i == 2 ? 0.0 : 6 * 64 * 384 * 4.0) << i;
    EXPECT_EQ(stages[i]["sent_backward"], i == 0 ? 0.0 : 6 * 64 * 384 * 4.0) << i;
    EXPECT_EQ(stages[i]["memory"]["logits"] == 0, i < 2) << i;
    parameters += stages[i]["parameters_of_rank"].get<int64_t>();
    moments += stages[i]["memory"]["moments"].get<int64_t>();
  }
  const int64_t embedding = 65 * 384;  // tied: on the first stage and, as the head, on the last
  EXPECT_EQ(parameters, whole["parameters_of_rank"].get<int64_t>() + embedding);
  EXPECT_EQ(moments, 8 * parameters);
  EXPECT_EQ(staged["pipeline"]["stage"], 0);
  EXPECT_EQ(staged["memory"]["most"], stages[0]["memory"]);
  const int64_t activations = whole["memory"]["most"]["at_any_time"]["activations"];
  EXPECT_EQ(stages[0]["memory"]["activations"], activations) << "6 of 6 blocks in flight";
  EXPECT_EQ(stages[2]["memory"]["activations"], activations * 3 / 6) << "2 blocks and one more";
  EXPECT_DOUBLE_EQ(staged["pipeline"]["bubble_share"].get<double>(), 2.0 / 8);
  const std::string text =
      run_well({"plan", "char-gpt", "--ranks", "6", "--pipeline", "3", "--length", "64"});
  for (const char* word : {"2 that divide batch and states x 1 that divide every layer x 3 stages",
                           "4 to 5", "each stage waits 66.7 % of a step", "1 micro-batch"})
    EXPECT_NE(text.find(word), std::string::npos) << word << " in\n" << text;
}

// FP8-LM's promise with the layout of its paper.
TEST_F(Plan, StagesOf175BFit) {
  std::vector<std::string> args = {"plan",     "gpt-175b", "--length",   "4096", "--ranks", "32",
                                   "--tensor", "8",        "--pipeline", "4",    "--json"};
  const Json plan = Json::parse(run_well(args));
  const Json &bf16 = plan["published"]["fits"][0], &fp8 = plan["published"]["fits"][1];
  EXPECT_EQ(bf16["largest_batch"], 0);
  EXPECT_GT(fp8["largest_batch"].get<int64_t>(), 0);
  EXPECT_EQ(fp8["largest_batch"], plan["largest_batch"]);
  args[1] = "gpt-13b";
  args[5] = "128";
  const Json stages = Json::parse(run_well(args))["pipeline"]["stages"];
  // 10 blocks of 12 matrices, an eighth of each, two bytes to 3 of 4 ranks.
  const double matrices = 10 * 12 * 5120.0 * 5120 / 8;
  EXPECT_NEAR(gib(stages[1]["payload"]), 2 * 0.75 * matrices / 0x1p30, 0.02);
  EXPECT_EQ(stages[1]["payload"], stages[2]["payload"]);
  // Of several micro-batches a stage keeps the operands of its own weights.
  const auto operands = [&](std::vector<std::string> more) {
    more.insert(more.begin(),
                {"plan", "char-gpt", "--recipe", "mxfp8", "--accumulate", "4", "--json"});
    return Json::parse(run_well(more))["memory"]["most"]["at_any_time"]["operands"].get<double>();
  };
  EXPECT_LT(operands({"--ranks", "3", "--pipeline", "3"}), operands({"--ranks", "1"}));
}

// The trainer's own plan, as `recipes NAME --model` has it.
TEST_F(Plan, OneRankIsOneProcess) {
  const Json plan = Json::parse(run_well({"plan", "char-gpt", "--ranks", "1", "--recipe", "bf16",
                                          "--batch", "2", "--length", "64", "--json"}));
  const Json& memory = plan["memory"];
  EXPECT_EQ(memory["most"], memory["one_process"]);
  EXPECT_EQ(memory["least"], memory["one_process"]);
  EXPECT_EQ(memory["most"]["moments"].get<int64_t>(),
            8 * plan["parameters_of_rank"].get<int64_t>());
  EXPECT_EQ(plan["traffic"]["most"]["total"], 0);
  EXPECT_EQ(plan["balance"]["tensor"], 1.0);
  EXPECT_GT(plan["largest_batch"].get<int64_t>(), 2);
  EXPECT_FALSE(plan.contains("published"));
}

TEST_F(Plan, MoreRanksHaveLessAndTheBatchThatFitsGrows) {
  const auto plan = [&](const char* ranks) {
    return Json::parse(run_well({"plan", "gpt2-124m", "--ranks", ranks, "--recipe", "fp32",
                                 "--device-memory", "4GiB", "--length", "128", "--json"}));
  };
  const Json two = plan("2"), eight = plan("8");
  EXPECT_GT(two["memory"]["most"]["moments"], eight["memory"]["most"]["moments"]);
  EXPECT_EQ(two["memory"]["most"]["weights"], eight["memory"]["most"]["weights"]);
  EXPECT_LT(two["largest_batch"], eight["largest_batch"]);
  EXPECT_GT(eight["balance"]["flat"], eight["balance"]["tensor"]);
  EXPECT_NEAR(eight["balance"]["tensor"].get<double>(), 0.403, 0.0005);
}

TEST_F(Plan, SeveralMicroBatchesTakeMoreAndLeaveLess) {
  const auto words = [&](const char* micros, int64_t batch) {
    return std::vector<std::string>{"plan",
                                    "char-gpt",
                                    "--ranks",
                                    "4",
                                    "--recipe",
                                    "fp32",
                                    "--length",
                                    "64",
                                    "--device-memory",
                                    "200MB",
                                    "--accumulate",
                                    micros,
                                    "--batch",
                                    std::to_string(batch)};
  };
  const auto plan = [&](const char* micros, int64_t batch) {
    std::vector<std::string> args = words(micros, batch);
    args.emplace_back("--json");
    return Json::parse(run_well(args));
  };
  const Json one = plan("1", 2), four = plan("4", 2);
  EXPECT_EQ(one["accumulate"], 1);
  EXPECT_EQ(four["accumulate"], 4);
  const int64_t whole = 4 * four["parameters_of_rank"].get<int64_t>();
  EXPECT_GE(four["memory"]["most"]["at_any_time"]["gradients"].get<int64_t>(), whole);
  EXPECT_LT(one["memory"]["most"]["at_any_time"]["gradients"].get<int64_t>(), whole);
  EXPECT_EQ(one["traffic"], four["traffic"]) << "sent once a step";
  const int64_t largest = four["largest_batch"];
  EXPECT_LT(largest, one["largest_batch"].get<int64_t>());
  EXPECT_LE(plan("4", largest)["memory"]["most"]["total"].get<int64_t>(), 200'000'000);
  EXPECT_GT(plan("4", largest + 1)["memory"]["most"]["total"].get<int64_t>(), 200'000'000);
  const std::string text = run_well(words("4", 2));
  EXPECT_NE(text.find("; 4 micro-batches of each rank in a step\n"), std::string::npos) << text;
  EXPECT_NE(text.find(fmt::format("200 MB: {} x 64 tokens, 4 a step\n", largest)),
            std::string::npos)
      << text;
}

// A test that takes minutes where it goes through all of them.
TEST_F(Plan, AMillionMicroBatchesTakeNoLongerThanThree) {
  const auto plan = [&](const char* micros) {
    return Json::parse(run_well({"plan", "char-gpt", "--ranks", "4", "--recipe", "mxfp4-sr-rht",
                                 "--length", "64", "--accumulate", micros, "--json"}));
  };
  const Json few = plan("3"), many = plan("1048577");
  for (const char* kind : {"weights", "moments", "gradients", "activations", "operands", "logits"})
    EXPECT_EQ(many["memory"]["most"][kind], few["memory"]["most"][kind]) << kind;
  EXPECT_EQ(many["accumulate"], 1048577);
}

TEST_F(Plan, ManyRanksAreSaidOfFewerAlone) {
  const auto words = [&](const char* ranks) {
    return std::vector<std::string>{"plan", "char-gpt", "--ranks", ranks, "--length", "64"};
  };
  EXPECT_NE(run_well(words("1000")).find("at 1,024 ranks"), std::string::npos);
  const std::string text = run_well(words("2000"));
  EXPECT_EQ(text.find("1,024"), std::string::npos) << text;
  EXPECT_TRUE(text.ends_with(" by whole tensors; this recipe: whole tensors\n")) << text;
  std::vector<std::string> args = words("2000");
  args.emplace_back("--json");
  EXPECT_FALSE(Json::parse(run_well(args)).contains("many_ranks"));
}

// As owners add what comes: codes exactly, values with their own exponents in FP64, FP32 by a tree.
TEST_F(Plan, SaysHowFarSumsAreExact) {
  struct Case {
    const char* gradient;
    std::vector<std::string> words;
  };
  for (const Case& c :
       {Case{"communicate='fp8_e5m2'",
             {"of fp8_e5m2, not exact in FP32, in FP64 up to 2,396,745 ranks",
              "nothing: added in FP64, rounded once"}},
        Case{"communicate='mxfp8_e4m3'",
             {"of mxfp8_e4m3 in FP64, exact of exponents at most 39 apart",
              "one order of nodes, too, where they sum first"}},
        Case{"communicate='fp8_e4m3'\ngradient.reduce='wire'",
             {"of fp8_e4m3, rounded at each of 1,023 hops",
              "gradient.reduce = \"fp32\": exact in FP32 up to 73 ranks"}},
        Case{"communicate='fp32'", {"of FP32 values by a tree of ranks, every sum rounded"}}}) {
    write_text(path("wire.toml"), fmt::format("name = 'wire'\ngradient.{}\n", c.gradient));
    const std::string text =
        run_well({"plan", "char-gpt", "--ranks", "2", "--length", "64", "--recipe", "wire.toml"});
    for (const std::string& word : c.words)
      EXPECT_NE(text.find(word), std::string::npos) << word << " in\n" << text;
    EXPECT_EQ(text.find("INT32"), std::string::npos) << text;
  }
}

// Every rank has the whole reference, beside what it owns of the policy.
TEST_F(Plan, AReferenceIsItsWeightsAlone) {
  const auto memory = [&](std::vector<std::string> more) {
    more.insert(more.begin(), {"plan", "char-gpt", "--ranks", "2", "--recipe", "fp32", "--batch",
                               "2", "--length", "64", "--json"});
    return Json::parse(run_well(more))["memory"]["most"];
  };
  const Json none = memory({}), as_policy = memory({"--reference", "policy"}),
             bf16 = memory({"--reference", "bf16"});
  EXPECT_EQ(none["reference"], 0);
  EXPECT_EQ(as_policy["reference"], as_policy["weights"]);
  EXPECT_NEAR(bf16["reference"].get<double>() / as_policy["reference"].get<double>(), 0.5, 0.01);
  for (const char* kind : {"weights", "moments", "gradients"})
    EXPECT_EQ(bf16["at_any_time"][kind], none["at_any_time"][kind]) << kind;
}

// Two ranks compute with BF16 copies: 2 bytes of a weight that become 1, 4 of a master that
// become 2.
TEST_F(Plan, PreferenceTrainingIsHeldAgainstBf16) {
  const std::vector<std::string> args = {"plan", "gpt-7b",      "--ranks", "2",        "--batch",
                                         "2",    "--reference", "policy",  "--length", "64"};
  const std::string text = run_well(args);
  for (const char* word :
       {"weights of policy and reference: ", "\nwith masters: ", "\nmoments: ",
        "gradients, masters and moments: ", "in RLHF of FP8-LM's paper -32 %", "paper -62 %"})
    EXPECT_NE(text.find(word), std::string::npos) << word << " in\n" << text;
  std::vector<std::string> json = args;
  json.emplace_back("--json");
  const Json preference = Json::parse(run_well(json))["preference"];
  const double weights = preference["weights"]["change"], states = preference["states"]["change"];
  EXPECT_NEAR(weights, -0.5, 0.05) << "the embeddings are wide";
  EXPECT_LT(states, -0.4);
  json.insert(json.end(), {"--recipe", "bf16"});
  const Json in_bf16 = Json::parse(run_well(json))["preference"];
  for (const auto& [of, facts] : in_bf16.items()) EXPECT_EQ(facts["change"], 0.0) << of;
  EXPECT_FALSE(
      Json::parse(run_well({"plan", "char-gpt", "--ranks", "2", "--json"})).contains("preference"));
}

TEST_F(Plan, SaysWhereNothingFits) {
  const std::string out =
      run_well({"plan", "gpt2-124m", "--ranks", "2", "--device-memory", "100MB"});
  EXPECT_NE(out.find("not even 1 x 1024 tokens fit in 100 MB"), std::string::npos) << out;
}

TEST_F(Plan, RefusalsNameTheFlag) {
  const auto refused = [&](std::vector<std::string> flags, int code,
                           const std::vector<std::string>& words) {
    flags.insert(flags.begin(), "plan");
    expect_refused(flags, code, words);
  };
  refused({"--ranks", "2"}, 2, {"MODEL"});
  refused({"char-gpt"}, 2, {"--ranks"});
  refused({"char-gpt", "--ranks", "0"}, 2, {"--ranks"});
  refused({"char-gpt", "--ranks", "2", "--device-memory", "80 apples"}, 2,
          {"--device-memory", "80 apples", "64GiB"});
  refused({"gpt-8b", "--ranks", "2"}, 1, {"MODEL", "gpt-8b", "gpt-7b", "llama-1b"});
  refused({"char-gpt", "--ranks", "2", "--recipe", "fp9"}, 1, {"fp9"});
  refused({"char-gpt", "--ranks", "6", "--tensor", "4"}, 1, {"--tensor: 4", "--ranks, 6"});
  refused({"char-gpt", "--ranks", "8", "--tensor", "4"}, 1, {"--tensor: 4 ranks for 6 heads"});
  refused({"char-gpt", "--ranks", "8", "--pipeline", "4"}, 1,
          {"--pipeline: 4 stages for 6 blocks: a divisor of 6"});
  refused({"char-gpt", "--ranks", "4", "--tensor", "2", "--pipeline", "3"}, 1,
          {"--pipeline: 3: a divisor of --ranks / --tensor, 2"});
  refused({"char-gpt", "--ranks", "2", "--pipeline", "0"}, 2, {"--pipeline"});
  refused({"char-gpt", "--ranks", "2", "--batch", "2", "--reference", "fp9"}, 1,
          {"--reference", "fp9", "bf16"});
  refused({"char-gpt", "--ranks", "2", "--batch", "3", "--reference", "policy"}, 1,
          {"--batch: 3 sequences, and a pair is two: an even number"});
  refused({"char-gpt", "--ranks", "2", "--length", "257"}, 1, {"--length", "257", "256"});
  refused({"char-gpt", "--ranks", "2", "--accumulate", "0"}, 2, {"--accumulate"});
  refused({"char-gpt", "--ranks", "2", "--accumulate", "8388609"}, 1,
          {"--accumulate: 8388609 on 2 ranks: at most 16777216 micro-batches in a step"});
}

}  // namespace
}  // namespace ng::e2e
