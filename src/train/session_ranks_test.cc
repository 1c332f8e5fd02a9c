// Whole runs on several ranks: one writes, all end in the same bits, and others go on.
#include <mutex>
#include <set>

#include "base/files.h"
#include "comm/agreement.h"
#include "comm/thread_ranks.h"
#include "io/checkpoint_files.h"
#include "io/safetensors.h"
#include "support/session_runs.h"

namespace ng {
namespace {

class SessionRanks : public SessionRuns {
 protected:
  /// `micros` micro-batches in a step, dealt to so many ranks.
  [[nodiscard]] RunConfig config_of(int ranks, std::vector<std::string> settings,
                                    int64_t micros = 4) const {
    settings.push_back(fmt::format("train.accumulate={}", micros / ranks));
    return config(std::move(settings));
  }

  /// What rank 0 returns. It stops after `stop_after` steps; -1: at the end.
  SessionResult train_on(int ranks, const RunConfig& config, bool resume = false,
                         int64_t stop_after = -1) const {
    SessionResult first;
    run_ranks(ranks, [&](Comm& comm) {
      Listener listener;
      listener.stop_after = stop_after;
      Session session(config,
                      {.out = in("out"), .resume = resume, .stop = &listener.stop, .comm = &comm},
                      listener);
      const SessionResult result = session.train();
      if (comm.rank() == 0) first = result;
    });
    return first;
  }
};

const std::vector<std::string> kGlobal = {"train.deterministic=global", "recipe=mxfp4-sr-rht",
                                          "train.steps=8", "train.checkpoint_every=0"};

TEST_F(SessionRanks, GlobalRunsEndInTheSameBitsOnAnyNumberOfRanks) {
  const std::map<std::string, std::string> want = unbroken(config_of(1, kGlobal));
  for (const int ranks : {2, 4}) {
    SCOPED_TRACE(ranks);
    remove_all(in("out"));
    train_on(ranks, config_of(ranks, kGlobal), false, 7);
    train_on(1, config_of(1, kGlobal), true);  // whose checkpoint is one file
    expect_same_end(want, 8);
    expect_whole_metrics(8, 3);
  }
}

// The second recipe has scales of whole tensors, whose rows have several owners.
TEST_F(SessionRanks, MoreOrFewerRanksGoOnWithTheSameBits) {
  const int64_t micros = 12;
  write_file_atomically(in("rows.toml"),
                        "name = 'rows'\ninherit = 'fp8-lm'\n"
                        "gradient = { communicate = 'fp32', reduce = 'fp32', auto_scale = false,"
                        " shard = 'flat' }\n");
  const std::vector<std::string> shared = {"train.deterministic=global",
                                           "recipe=" + in("rows.toml"),
                                           "model.layers=1",
                                           "model.ffn=700",
                                           "train.steps=8",
                                           "train.checkpoint_every=0"};
  for (const std::vector<std::string>& settings : {kGlobal, shared}) {
    SCOPED_TRACE(settings[1]);
    remove_all(in("out"));
    remove_all(in("unbroken"));
    const std::map<std::string, std::string> want = unbroken(config_of(1, settings, micros));
    int64_t done = 0;
    for (const int ranks : {4, 3, 2, 1, 4, 1}) {  // each with what the run file says for four
      const bool is_last = done == 5;
      const SessionResult result =
          train_on(ranks, config_of(4, settings, micros), done > 0, is_last ? -1 : done + 1);
      EXPECT_EQ(result.interrupted, !is_last);
      done = result.steps;
    }
    expect_same_end(want, 8);
    expect_whole_metrics(8, 3);
  }
}

// Each rank's own draws, scales and states come back; so does how long a scale has been waiting.
TEST_F(SessionRanks, AResumedRunOfNarrowStatesAndWiresEndsInTheBitsOfAnUnbrokenOne) {
  write_file_atomically(in("waiting.toml"),
                        "inherit = 'fp8-lm'\ngradient.growth_interval = 2\n"
                        "gradient.auto_scale_growth_after = 5\n");
  for (const std::string& recipe :
       {std::string("fp8-lm"), std::string("bf16"), in("waiting.toml")}) {
    SCOPED_TRACE(recipe);
    const std::vector<std::string> settings = {"recipe=" + recipe, "train.steps=6",
                                               "train.checkpoint_every=0"};
    remove_all(in("out"));
    train_on(3, config_of(3, settings, 3));
    const std::map<std::string, std::string> want = contents(in("out"));
    remove_all(in("out"));
    train_on(3, config_of(3, settings, 3), false, 4);
    train_on(3, config_of(3, settings, 3), true);
    expect_same_end(want, 6);
  }
}

// Good steps are counted only where a recipe asks for it, by one process as by several.
TEST_F(SessionRanks, AutoScalesGrowAsTheRecipeSays) {
  /// k and, where they are counted, good steps of the first matrix after four steps without a code
  /// that lowers the scale.
  const auto after_four = [&](int ranks, const std::string& keys) {
    remove_all(in("out"));
    write_file_atomically(in("grown.toml"),
                          "inherit = 'fp8-lm'\ngradient.auto_scale_delta = 1\n" + keys);
    train_on(ranks, config_of(ranks, {"recipe=" + in("grown.toml"), "train.steps=4",
                                      "train.checkpoint_every=0"}));
    std::vector<float> values;
    for (const char* row : {"gradient_scale", "gradient_good_steps"})
      for (const std::string& name : list_folder(checkpoint(4))) {
        if (!name.ends_with(".safetensors")) continue;
        const io::Safetensors file(join_path(checkpoint(4), name));
        const auto* entry = file.find(fmt::format("{}.blocks.0.attn.q.weight", row));
        if (entry == nullptr) continue;
        float& last = values.emplace_back();
        entry->read(static_cast<size_t>(entry->elements() - 1) * sizeof last,
                    std::as_writable_bytes(std::span(&last, 1)));
      }
    return values;
  };
  using Values = std::vector<float>;
  EXPECT_EQ(after_four(1, ""), (Values{4}));
  EXPECT_EQ(after_four(1, "gradient.auto_scale_growth_after = 3"), (Values{2, 3}));
  EXPECT_EQ(after_four(2, ""), (Values{-496})) << "1/sqrt(2), of 1,000 steps that double";
  EXPECT_EQ(after_four(2, "gradient.auto_scale_growth_after = 3"), (Values{-498, 3}));
  EXPECT_EQ(after_four(2, "gradient.auto_scale_growth_after = 9"), (Values{-500, 4}));
  EXPECT_EQ(after_four(2, "gradient.auto_scale_start = '1/N'"), (Values{-996}));
  EXPECT_EQ(after_four(2, "gradient.auto_scale_start = '1'"), (Values{4}));
}

// Several ranks compute with copies in BF16: no checkpoint has them, so that one rank, which has
// FP32 values alone, writes the same tensors.
TEST_F(SessionRanks, CheckpointsHaveTheValuesAndNoCopies) {
  const std::vector<std::string> settings = {
      "recipe=bf16", "train.steps=6", "train.checkpoint_every=0", "train.keep_checkpoints=3"};
  const auto tensors = [&](int64_t step) {
    std::map<std::string, std::vector<int64_t>> shapes;  // rows of parts come together
    for (const std::string& name : list_folder(checkpoint(step))) {
      if (!name.ends_with(".safetensors")) continue;
      const io::Safetensors file(join_path(checkpoint(step), name));
      for (const io::SafetensorsEntry& entry : file.entries()) {
        std::vector<int64_t>& shape = shapes[entry.name.substr(0, entry.name.find('['))];
        if (shape.empty()) shape = {0, entry.shape[1]};
        shape[0] += entry.shape[0];
        EXPECT_FALSE(entry.name.starts_with("copy.")) << name << ' ' << entry.name;
      }
    }
    return shapes;
  };
  train_on(2, config_of(2, settings), false, 2);
  train_on(1, config_of(1, settings), true, 4);
  train_on(4, config_of(4, settings), true);
  EXPECT_EQ(tensors(2), tensors(4));
  EXPECT_EQ(tensors(4), tensors(6));
}

TEST_F(SessionRanks, StepsSendWhatWasPlanned) {
  for (const std::string recipe : {"fp8-lm", "fp32"}) {
    remove_all(in("out"));
    train_on(3, config_of(3, {"recipe=" + recipe, "train.steps=3"}, 3));
    Json planned;
    int64_t steps = 0;
    for (const Json& line : metrics_lines()) {
      if (line.value("event", "") == "traffic") planned = line;
      if (!line.contains("loss")) continue;
      ++steps;
      for (const char* kind : {"gradients", "weights", "scales"})
        EXPECT_EQ(line["sent"][kind], planned["sent"][kind]) << recipe << ' ' << kind;
    }
    EXPECT_EQ(planned["ranks"], 3);
    EXPECT_EQ(steps, 3);
  }
}

// A checkpoint that a rank's file was never part of, and says so, is no damaged one.
TEST_F(SessionRanks, RowsThatNoFileHoldsAreNamed) {
  train_on(2, config_of(2, {"train.steps=4", "train.checkpoint_every=4"}), false, 3);
  const std::string manifest = join_path(checkpoint(3), "manifest.json");
  Json files = Json::parse(read_file(manifest, kMaxFile));
  ASSERT_EQ(files.at("files").erase("state-2-of-2.safetensors"), 1U);
  write_file_atomically(manifest, files.dump());
  remove_all(join_path(checkpoint(3), "state-2-of-2.safetensors"));
  const std::string whole = refusal(config_of(1, {"train.steps=4"}), true);
  EXPECT_NE(whole.find("state-1-of-2.safetensors: moment1.embed.weight[0:128]"), std::string::npos)
      << whole;
  try {
    train_on(2, config_of(2, {"train.steps=4"}), true);
    ADD_FAILURE() << "trained";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("are in none of the state files"), std::string::npos)
        << error.what();
  }
}

// A damaged file of a rank costs the checkpoint, not the run.
TEST_F(SessionRanks, ATruncatedMissingOrForeignFileOfARankIsNamed) {
  train_on(2, config_of(2, {"train.steps=4", "train.checkpoint_every=2"}), false);
  const std::map<std::string, std::string> whole = contents(in("out"));
  const std::string name = "state-2-of-2.safetensors", path = join_path(checkpoint(4), name);
  const std::string bytes = read_file(path, kMaxFile);
  const std::string older = read_file(join_path(checkpoint(2), name), kMaxFile);
  ASSERT_EQ(older.size(), bytes.size()) << "only its checksum gives it away";

  const auto expect_named = [&](const std::string& problem, const std::function<void()>& damage) {
    SCOPED_TRACE(problem);
    remove_all(in("out"));
    for (const auto& [file, content] : whole) {
      make_folders(in(join_path("out", file.substr(0, file.rfind('/') + 1))));
      write_file_atomically(in(join_path("out", file)), content);
    }
    damage();
    Listener listener;
    train(config_of(1, {"train.steps=4"}), listener, true);
    EXPECT_TRUE(listener.heard(problem)) << listener.notices.front();
    EXPECT_EQ(listener.first_step, 3) << "from the older checkpoint";
  };
  expect_named(name + ": missing", [&] { remove_all(path); });
  expect_named(name + ": has ",
               [&] { write_file_atomically(path, bytes.substr(0, bytes.size() - 1)); });
  expect_named(name + ": its checksum", [&] { write_file_atomically(path, older); });
  expect_named("state-3-of-3.safetensors: is not in the manifest", [&] {
    write_file_atomically(join_path(checkpoint(4), "state-3-of-3.safetensors"), bytes);
  });
}

// A run does not begin anew over what is left of another.
TEST_F(SessionRanks, ARunOfDamagedCheckpointsAloneIsRefused) {
  const RunConfig config =
      config_of(2, {"train.steps=4", "train.checkpoint_every=4", "train.keep_checkpoints=1"});
  train_on(2, config, false, 3);
  remove_all(join_path(checkpoint(3), "state-2-of-2.safetensors"));
  const std::map<std::string, std::string> before = contents(in("out"));
  for (const int ranks : {2, 1}) {
    try {
      train_on(ranks, config, true);
      FAIL() << "trained on " << ranks;
    } catch (const Error& error) {
      const std::string what = error.what();
      EXPECT_NE(what.find("no checkpoint is whole"), std::string::npos) << what;
      EXPECT_NE(what.find("state-2-of-2.safetensors: missing"), std::string::npos) << what;
    }
    EXPECT_EQ(contents(in("out")), before);
  }
}

TEST_F(SessionRanks, RanksThatWouldTrainSomethingElseAreRefused) {
  const auto refused = [&](const std::function<RunConfig(int)>& config_of_rank) -> std::string {
    try {
      run_ranks(2, [&](Comm& comm) {
        Listener listener;
        Session(config_of_rank(comm.rank()), {.out = in("other"), .comm = &comm}, listener).train();
      });
    } catch (const Error& error) {
      return error.what();
    }
    return "trained";
  };
  const std::string error = refused(
      [&](int rank) { return config_of(2, {rank == 0 ? "train.lr=1e-2" : "train.lr=2e-2"}); });
  EXPECT_EQ(error,
            "rank 1: run file: \"train.lr = 0.02\", not \"train.lr = 0.01\" as rank 0's: "
            "the same on all ranks");
  const std::string other = refused(
      [&](int rank) { return config_of(2, {rank == 0 ? "recipe=fp8-lm" : "recipe=bf16"}); });
  EXPECT_NE(other.find("recipe = \"bf16\""), std::string::npos) << other;
  const std::string left_out = refused([&](int rank) {
    return config_of(2, {rank == 0 ? "train.warmup=1" : "train.min_lr=1e-4", "train.warmup=1"});
  });
  EXPECT_EQ(left_out,
            "rank 1: run file: \"train.min_lr = 0.0001\", "
            "not \"train.min_lr = 0.001\" as rank 0's: the same on all ranks");
  const std::string threads =
      refused([&](int rank) { return config_of(2, {fmt::format("train.threads={}", 1 + rank)}); });
  EXPECT_EQ(threads, "trained");
}

// Each would say what only rank 1 knows, or what all know.
TEST_F(SessionRanks, WhatOneRankMissesAllRanksTell) {
  std::mutex mutex;
  std::set<std::string> told;
  const auto train_at = [&](const std::function<std::string(int)>& text_of_rank) {
    told.clear();
    run_ranks(2, [&](Comm& comm) {
      Listener listener;
      try {
        Session(config_of(2, {"data.train=" + text_of_rank(comm.rank())}),
                {.out = in("other"), .comm = &comm}, listener)
            .train();
      } catch (const SharedFailure& failure) {
        const std::lock_guard lock(mutex);
        told.insert(failure.what());
      }
    });
  };
  train_at([&](int rank) { return rank == 0 ? in("text.txt") : in("missing.txt"); });
  ASSERT_EQ(told.size(), 1U);
  EXPECT_EQ(told.begin()->find("rank 1: "), 0U) << *told.begin();
  EXPECT_NE(told.begin()->find("missing.txt"), std::string::npos) << *told.begin();
  train_at([&](int) { return in("missing.txt"); });
  ASSERT_EQ(told.size(), 1U);
  EXPECT_EQ(told.begin()->find("rank"), std::string::npos) << *told.begin();
}

TEST_F(SessionRanks, TheGlobalBatchStaysAndIsSaidOnce) {
  train_on(2, config_of(2, kGlobal), false, 2);
  Listener listener;
  train(config_of(2, kGlobal), listener, true);
  ASSERT_EQ(listener.notices.size(), 2U);
  EXPECT_EQ(listener.notices.back(), "resuming at step 2");
  EXPECT_EQ(listener.notices.front(),
            "--set train.accumulate=2: train.accumulate = 2 is taken as 4: a step of the "
            "checkpoint has 4 micro-batches, which 1 rank does");
  EXPECT_EQ(RunConfig::load(in("out/run.toml")).train.accumulate, 4);
}

TEST_F(SessionRanks, RanksThatCannotShareTheGlobalBatchAreRefused) {
  train_on(2, config_of(2, kGlobal), false, 2);
  const std::map<std::string, std::string> before = contents(in("out"));
  try {
    train_on(3, config_of(2, kGlobal), true);
    ADD_FAILURE() << "trained";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what())
                  .find("a step has 4 micro-batches, which 3 ranks cannot share equally: "
                        "1, 2 or 4 ranks"),
              std::string::npos)
        << error.what();
  }
  EXPECT_EQ(contents(in("out")), before);
}

TEST_F(SessionRanks, AnotherBatchOfARankIsRefused) {
  train_on(2, config_of(2, kGlobal), false, 2);
  RunConfig other = config_of(4, kGlobal);
  other.train.batch = 4;
  const std::string error = refusal(other, true);
  EXPECT_NE(error.find("2 x 8 x 4"), std::string::npos) << error;
  EXPECT_NE(error.find("4 x 8 x 4"), std::string::npos) << error;
}

// Rank 1 alone is asked to stop.
TEST_F(SessionRanks, OneRankThatIsToStopStopsAll) {
  run_ranks(2, [&](Comm& comm) {
    Listener listener;
    if (comm.rank() == 1) listener.stop_after = 3;
    Session session(config_of(2, {"train.steps=6"}),
                    {.out = in("out"), .stop = &listener.stop, .comm = &comm}, listener);
    const SessionResult result = session.train();
    EXPECT_TRUE(result.interrupted);
    EXPECT_EQ(result.steps, 3);
  });
  EXPECT_EQ(io::list_checkpoints(in("out/checkpoints")).front().step, 3);
}

TEST_F(SessionRanks, GlobalRefusesNarrowSums) {
  for (const std::string gradient : {"communicate = \"bf16\"", "accumulate = \"bf16\""}) {
    const std::string recipe = recipe_file("name = \"narrow\"\n[gradient]\n" + gradient + "\n");
    const std::string error = refusal(config({recipe, "train.deterministic=global"}), false);
    EXPECT_NE(error.find("train.deterministic"), std::string::npos) << error;
    EXPECT_NE(error.find("gradient."), std::string::npos) << error;
  }
}

}  // namespace
}  // namespace ng
