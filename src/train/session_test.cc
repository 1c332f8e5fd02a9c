// An interrupted run ends in the same bits as an unbroken one, passes over damaged checkpoints, and
// refuses in one line what it cannot go on from.
#include "train/session.h"

#include <algorithm>
#include <limits>

#include "base/checksum.h"
#include "io/safetensors.h"
#include "support/session_runs.h"

namespace ng {
namespace {

using SessionResume = SessionRuns;

// Delayed scales in all six operands; the history is shorter than the run.
const char* const kDelayedScales =
    "name = \"delayed\"\n"
    "linear.fprop = { input={format=\"fp8_e4m3\", scaling=\"delayed\", amax_history=3},"
    " weight={format=\"fp8_e4m3\", scaling=\"delayed\", amax_history=3} }\n"
    "linear.dgrad = { grad={format=\"fp8_e5m2\", scaling=\"delayed\", amax_history=5},"
    " weight={format=\"fp8_e4m3\", scaling=\"delayed\", amax_history=3} }\n"
    "linear.wgrad = { grad={format=\"fp8_e5m2\", scaling=\"delayed\", amax_history=3},"
    " input={format=\"fp8_e4m3\", scaling=\"delayed\", amax_history=3} }\n";

// From step 4 of 8 on, two operands start a fresh history and the others keep theirs.
const char* const kPhase =
    "[[phase]]\n"
    "start = 0.5\n"
    "linear.fprop = { input={format=\"fp8_e5m2\", scaling=\"delayed\", amax_history=2} }\n"
    "linear.wgrad = { grad={format=\"mxfp4\", rounding=\"stochastic\"},"
    " input={format=\"fp8_e5m2\", scaling=\"delayed\", amax_history=4} }\n";

TEST_F(SessionResume, InterruptedAnywhereEndInTheSameBits) {
  for (const std::string& recipe :
       {std::string(kDelayedScales), kDelayedScales + std::string(kPhase)}) {
    const std::vector<std::string> settings = {recipe_file(recipe), "train.steps=8",
                                               "train.accumulate=2", "train.checkpoint_every=0"};
    remove_all(in("unbroken"));
    remove_all(in("out"));
    const std::map<std::string, std::string> want = unbroken(config(settings));
    std::vector<std::string> other = settings;
    other.insert(other.end(), {"train.threads=2", "train.recompute=block"});
    for (int64_t steps = 1; steps <= 8; ++steps) {  // after the last: while it is validated
      SCOPED_TRACE(fmt::format("interrupted after {}", steps));
      remove_all(in("out"));
      interrupt(config(settings), steps);
      EXPECT_EQ(resume(config(other)).steps, 8);
      expect_same_end(want, 8);
      expect_whole_metrics(8, 3);
    }
    remove_all(in("out"));
    for (int64_t steps = 1; steps < 8; ++steps)
      interrupt(config(steps % 2 == 0 ? settings : other), steps, steps > 1);
    resume(config(settings));
    expect_same_end(want, 8);
    expect_whole_metrics(8, 3);
  }
}

TEST_F(SessionResume, ThreadsDoNotChangeTheBits) {
  const std::vector<std::string> settings = {recipe_file(kDelayedScales), "train.steps=4"};
  const std::map<std::string, std::string> want = unbroken(config(settings));
  for (const char* threads : {"train.threads=2", "train.threads=3"}) {
    std::vector<std::string> other = settings;
    other.emplace_back(threads);
    remove_all(in("out"));
    Listener listener;
    train(config(other), listener);
    expect_same_end(want, 4);
  }
}

TEST_F(SessionResume, TwinsDifferInTheDrawsOfRoundingAlone) {
  const auto weights = [&](const char* recipe, const char* twin) {
    remove_all(in("out"));
    Listener listener;
    train(config({recipe, twin, "train.steps=3"}), listener);
    return read_file(in("out/model/model.safetensors"), 1 << 24);
  };
  EXPECT_EQ(weights("recipe=bf16", "twin=0"), weights("recipe=bf16", "twin=1"));
  EXPECT_NE(weights("recipe=sr-bf16", "twin=0"), weights("recipe=sr-bf16", "twin=1"));
}

TEST_F(SessionResume, CheckpointsHoldTheHistoryOfDelayedScales) {
  interrupt(config({recipe_file(kDelayedScales)}), 2);
  const io::Safetensors state(join_path(checkpoint(2), "state.safetensors"));
  size_t moved = 0, seen = 0;
  for (const io::SafetensorsEntry& entry : state.entries()) {
    if (!entry.name.starts_with("scale.")) continue;
    const std::vector<float> values = io::to_floats(entry);
    if (entry.name.ends_with(".encode"))
      moved += values.at(0) != 1.0f ? 1 : 0;
    else if (entry.name.ends_with(".history"))
      seen += *std::max_element(values.begin(), values.end()) > 0 ? 1 : 0;
  }
  EXPECT_EQ(moved, 7u * 6u);  // linears of a Llama block, operands of each
  EXPECT_EQ(seen, 7u * 6u);
}

/// One way to spoil a checkpoint folder, and the file that must be named.
struct Damage {
  const char* name;
  const char* file;
  std::function<void(const std::string& path)> spoil;
};

const std::vector<Damage>& damages() {
  static const std::vector<Damage> all = {
      {"truncated", "state.safetensors",
       [](const std::string& path) {
         const std::string whole = read_file(path, kMaxFile);
         write_file_atomically(path, whole.substr(0, whole.size() / 2));
       }},
      {"flipped bit", "state.safetensors",
       [](const std::string& path) {
         std::string content = read_file(path, kMaxFile);
         content[content.size() - 100] ^= 1;
         write_file_atomically(path, content);
       }},
      {"missing file", "state.safetensors", remove_all},
      {"missing manifest", "manifest.json", remove_all},
      {"empty manifest", "manifest.json",
       [](const std::string& path) { write_file_atomically(path, ""); }},
      {"foreign manifest", "manifest.json",
       [](const std::string& path) { write_file_atomically(path, "[1, 2]"); }},
      {"changed identity", "run.json",
       [](const std::string& path) { write_file_atomically(path, "{\"step\": \"x\"}"); }},
  };
  return all;
}

TEST_F(SessionResume, PassOverADamagedCheckpoint) {
  const RunConfig run = config({"train.steps=8", "train.keep_checkpoints=3"});
  const std::map<std::string, std::string> want = unbroken(run);
  for (const Damage& damage : damages()) {
    SCOPED_TRACE(damage.name);
    remove_all(in("out"));
    interrupt(run, 6);
    damage.spoil(join_path(checkpoint(6), damage.file));
    Listener listener;
    train(run, listener, true);
    EXPECT_TRUE(listener.heard(join_path(checkpoint(6), damage.file)));
    EXPECT_EQ(listener.first_step, 5);
    expect_same_end(want, 8);
    expect_whole_metrics(8, 3);
  }
}

TEST_F(SessionResume, ADamagedCheckpointPushesNoWholeOneOut) {
  const RunConfig run = config({"train.steps=8"});  // keeps two
  const std::map<std::string, std::string> want = unbroken(run);
  interrupt(run, 6);
  remove_all(join_path(checkpoint(6), "run.json"));
  interrupt(run, 5, true);
  EXPECT_EQ(list_folder(in("out/checkpoints")),
            (std::vector<std::string>{"step-00000004", "step-00000005", "step-00000006.damaged"}));
  Listener listener;
  train(run, listener, true);
  EXPECT_EQ(listener.first_step, 6);
  expect_same_end(want, 8);
}

TEST_F(SessionResume, ADamagedCheckpointCountsForNoneThatIsKept) {
  const RunConfig run = config({"train.steps=8", "train.checkpoint_every=5"});  // keeps two
  interrupt(run, 6);
  remove_all(join_path(checkpoint(6), "run.json"));
  interrupt(run, 7, true);
  EXPECT_EQ(list_folder(in("out/checkpoints")),
            (std::vector<std::string>{"step-00000005", "step-00000006.damaged", "step-00000007"}));
}

TEST_F(SessionResume, OnlyWithoutACheckpointStartAnewAndSaySo) {
  const std::map<std::string, std::string> want = unbroken(config());
  interrupt(config(), 5);
  for (const int64_t step : {4, 5}) remove_all(join_path(checkpoint(step), "manifest.json"));
  Listener damaged;
  EXPECT_THROW(train(config(), damaged, true), Error) << "it would be lost";
  EXPECT_TRUE(damaged.heard("step-00000004"));
  EXPECT_TRUE(damaged.heard("step-00000005"));
  EXPECT_EQ(damaged.first_step, 0);
  remove_all(in("out/checkpoints"));
  Listener listener;
  train(config(), listener, true);
  EXPECT_TRUE(listener.heard("starting at step 0"));
  EXPECT_EQ(listener.first_step, 1);
  expect_same_end(want, 6);
  expect_whole_metrics(6, 3);
}

TEST_F(SessionResume, OldMetricsStayWhereNothingCanBeSaved) {
  interrupt(config(), 5);
  const std::string before = read_file(in("out/metrics.jsonl"), kMaxFile);
  remove_all(in("out/checkpoints"));
  Listener listener;
  listener.on_step = [&](int64_t) {
    remove_all(in("out/checkpoints"));
    write_file_atomically(in("out/checkpoints"), "in the way");
  };
  EXPECT_THROW(train(config(), listener, true), Error);
  EXPECT_EQ(read_file(in("out/metrics.jsonl"), kMaxFile), before);
}

TEST_F(SessionResume, RefuseACheckpointThatContradictsItself) {
  interrupt(config(), 3);
  const auto spoil = [&](const std::string& file, const std::string& from, const std::string& to) {
    const std::string path = join_path(checkpoint(3), file);
    std::string content = read_file(path, kMaxFile);
    ASSERT_NE(content.find(from), std::string::npos) << from;
    content.replace(content.find(from), from.size(), to);
    write_file_atomically(path, content);
    const std::string manifest_path = join_path(checkpoint(3), "manifest.json");
    Json manifest = Json::parse(read_file(manifest_path, kMaxFile));
    manifest["files"][file]["xxh3_128"] = checksum_of(std::as_bytes(std::span(content)));
    write_file_atomically(manifest_path, manifest.dump());
  };
  const std::string state = read_file(join_path(checkpoint(3), "state.safetensors"), kMaxFile);
  spoil("run.json", "\"step\": 3", "\"step\": 2");
  const std::string step = refusal(config(), true);
  EXPECT_NE(step.find("run.json: step: 2"), std::string::npos) << step;
  spoil("run.json", "\"step\": 2", "\"step\": 3");
  spoil("state.safetensors", "[20,12]", "[12,20]");
  const std::string shape = refusal(config(), true);
  EXPECT_NE(shape.find("F32 [12, 20]: F32 [20, 12]"), std::string::npos) << shape;
}

TEST_F(SessionResume, RefuseToGoOnWithAnotherRun) {
  interrupt(config(), 3);
  write_file_atomically(in("other.txt"), std::string(900, 'x'));
  const std::map<std::string, std::string> before = contents(in("out"));
  const std::pair<const char*, std::string> cases[] = {
      {"seed=4", "seed: 3, but this run has 4"},
      {"twin=1", "twin: 0, but this run has 1"},
      {"model.ffn=21", "the same model to resume"},
      {"model.layers=2", "the same model to resume"},
      {"model.rope_theta=5000", "the same model to resume"},  // no tensor tells
      {"model.context=7", "the same model to resume"},
      {"train.batch=3", "to resume"},
      {"recipe=bf16", "the same recipe to resume"},
      {"data.validation=0.3", "the same text and tokenizer to resume"},
      {"train.steps=2", "3 steps are done, but train.steps = 2"},
  };
  for (const auto& [setting, want] : cases)
    EXPECT_NE(refusal(config({setting}), true).find(want), std::string::npos) << setting;
  RunConfig other = config();
  other.data.train = {in("other.txt")};
  EXPECT_NE(refusal(other, true).find("the same text"), std::string::npos);
  EXPECT_NE(refusal(config(), false).find("already holds a run"), std::string::npos);
  EXPECT_EQ(contents(in("out")), before);  // a refused run changes nothing
}

TEST_F(SessionResume, SayWhatDiffersFromTheRecipeTheyBeganWith) {
  const auto mine = [&](const std::string& keys) {
    return config({recipe_file("name = 'mine'\ninherit = 'bf16'\n" + keys)});
  };
  const auto refused = [&](const RunConfig& other) {
    const std::string text = refusal(other, true);
    EXPECT_EQ(text.find(Recipe::load(other.recipe).hash()), std::string::npos) << text;
    return text.substr(text.find("recipe: "));
  };
  interrupt(mine(""), 3);
  const std::string to_do =
      ": the same recipe to resume, --recipe NAME to go on in the numbers of another, or another "
      "--out to start anew";
  EXPECT_EQ(refused(mine("linear.fprop.weight = 'mxfp8_e4m3'\noptimizer.kind = 'sgd'\n")),
            "recipe: mine, but this run has mine (linear.fprop.weight: \"bf16\" -> "
            "\"mxfp8_e4m3\", optimizer.kind: \"adamw\" -> \"sgd\")" +
                to_do);
  EXPECT_EQ(refused(mine("[[override]]\nblocks = '0:1'\nlinear.fprop.weight = 'mxfp8_e4m3'\n"
                         "[[phase]]\nstart = 0.5\nlinear.fprop.weight = 'fp8_e4m3'\n")),
            "recipe: mine, but this run has mine (override[1].layers: none -> [\"*\"], "
            "override[1].blocks: none -> \"0:1\", override[1].linear.fprop.weight: none -> "
            "\"mxfp8_e4m3\" and 2 more)" +
                to_do);
  const std::string noise = refused(config({"recipe=gaussws-all"}));
  EXPECT_TRUE(noise.starts_with("recipe: mine, but this run has gaussws-all (weight_noise.kind: "))
      << noise;
  write_file_atomically(in("out/run.toml"), "");
  EXPECT_TRUE(refused(config({"recipe=int8"})).starts_with("recipe: mine, but this run has int8 ("))
      << "the checkpoint itself tells";
}

TEST_F(SessionResume, GoOnFromACheckpointThatNamesTheRecipeByAllKeys) {
  const RunConfig run = config({recipe_file(kDelayedScales)});
  const std::map<std::string, std::string> want = unbroken(run);
  interrupt(run, 3);
  const Recipe recipe = Recipe::load(run.recipe);
  const auto rewrite = [&](const std::string& hash) {
    Json identity = Json::parse(read_file(join_path(checkpoint(3), "run.json"), kMaxFile));
    const std::string state = read_file(join_path(checkpoint(3), "state.safetensors"), kMaxFile);
    identity["recipe"] = hash;
    identity.erase("recipe_toml");  // as older versions have it
    io::CheckpointWriter writer(in("out/checkpoints"), 3);
    writer.write_text("state.safetensors", state);
    writer.write_text("run.json", identity.dump());
    writer.publish();
  };
  rewrite(Recipe::load("bf16").hash_of_all_keys());
  EXPECT_NE(refusal(run, true).find("recipe: another one, which run.toml does not tell, but this "
                                    "run has delayed: the same recipe to resume, or another --out"),
            std::string::npos);
  rewrite(recipe.hash_of_all_keys());
  EXPECT_NE(refusal(config({"recipe=bf16"}), true).find("recipe: delayed, but this run has bf16 ("),
            std::string::npos);
  EXPECT_EQ(resume(run).steps, 6);
  expect_same_end(want, 6);
}

TEST_F(SessionResume, SayWhichSettingsOfTheUpdateAreNew) {
  interrupt(config(), 3);
  Listener same;
  train(config(), same, true);
  EXPECT_EQ(same.notices, std::vector<std::string>{"resuming at step 3"});
  remove_all(in("out"));
  interrupt(config(), 3);
  Listener listener;
  train(config({"train.lr=0.02", "train.threads=2"}), listener, true);
  EXPECT_TRUE(listener.heard("resuming at step 3: train.lr = 0.02, but 0.01 until here"));
  EXPECT_FALSE(listener.heard("threads"));
}

TEST_F(SessionResume, ATornLineOfMetricsGoes) {
  interrupt(config(), 4);
  const std::string before = read_file(in("out/metrics.jsonl"), kMaxFile);
  for (const char* tail :
       {"{\"step\":5,\"loss\":1.0}\n{\"step\":6,\"lo", "{\"step\":\"x\"}\n", "\n"}) {
    write_file_atomically(in("out/metrics.jsonl"), before + tail);
    interrupt(config(), 5, true);
    remove_all(checkpoint(5));
  }
  resume(config());
  expect_whole_metrics(6, 3);
}

TEST_F(SessionResume, AWeightThatIsNotFiniteReachesNoCheckpoint) {
  const auto poisoned = [&](int64_t stop_after) {
    remove_all(in("out"));
    Listener listener;
    listener.stop_after = stop_after;
    Session session(config({"train.steps=30", "train.checkpoint_every=4"}),
                    {.out = in("out"), .resume = false, .stop = &listener.stop}, listener);
    listener.on_checkpoint = [&](int64_t) {
      for (Parameter& p : session.model().parameters())
        if (p.spec.name == "blocks.0.mlp.down.weight")
          p.value().as<float>().data[5] = -std::numeric_limits<float>::infinity();
    };
    try {
      session.train();
    } catch (const Error& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  const std::string at_save = poisoned(6);
  EXPECT_NE(at_save.find("weight.blocks.0.mlp.down.weight"), std::string::npos) << at_save;
  EXPECT_EQ(list_folder(in("out/checkpoints")), std::vector<std::string>{"step-00000004"});
  const std::string in_training = poisoned(-1);
  EXPECT_NE(
      in_training.find("blocks.0.mlp.down fprop.weight: not finite in 5 steps in a row, since "
                       "step 5"),
      std::string::npos)
      << in_training;
  EXPECT_NE(in_training.find("the checkpoint of step 4 is whole"), std::string::npos);
  EXPECT_EQ(list_folder(in("out/checkpoints")), std::vector<std::string>{"step-00000004"});
  EXPECT_EQ(resume(config({"train.steps=30"})).steps, 30);
}

TEST_F(SessionResume, AnExplodingLearningRateStopsWithTheLayerNamed) {
  RunConfig run = config({"train.steps=30", "train.warmup=0"});
  interrupt(run, 2);
  const auto before = contents(checkpoint(2));
  run.train.lr = 1e25;  // squares of activations overflow FP32
  const std::string why = refusal(run, true);
  EXPECT_NE(why.find("not finite in 5 steps in a row, since step 4"), std::string::npos) << why;
  EXPECT_NE(why.find("blocks.0."), std::string::npos) << why;
  EXPECT_EQ(contents(checkpoint(2)), before);
}

// Of a model whose context is longer.
TEST_F(SessionRuns, SequencesAreAsLongAsTheRunFileSays) {
  Listener listener;
  train(config({"train.length=5", "model.context=64"}), listener);
  EXPECT_EQ(metrics_lines()[3]["tokens"], 2 * 5);
  remove_all(in("out"));
  EXPECT_EQ(refusal(config({"train.length=9"}), false),
            "--set train.length=9: train.length: 9: at most the model's context, 8");
}

}  // namespace
}  // namespace ng
