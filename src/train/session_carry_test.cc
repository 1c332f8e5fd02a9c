// A run goes on in another recipe's numbers: its states become what they stand for, and are
// counted.
#include <cmath>

#include "comm/thread_ranks.h"
#include "io/safetensors.h"
#include "run/backends.h"
#include "support/session_runs.h"
#include "train/run_inputs.h"
#include "train/stretches.h"

namespace ng {
namespace {

using Floats = std::vector<float>;

class SessionCarry : public SessionRuns {
 protected:
  /// Matrices large enough for moments in few bits, and more of them.
  [[nodiscard]] RunConfig wide(const std::string& recipe,
                               std::vector<std::string> more = {}) const {
    more.insert(more.begin(), {"recipe=" + recipe, "model.head_dim=32", "model.width=64",
                               "model.ffn=64", "train.keep_checkpoints=9"});
    return config(std::move(more));
  }
  /// As --recipe has it.
  SessionResult go_on(const RunConfig& config, Listener& listener, Comm* comm = nullptr) const {
    Session session(config,
                    {.out = in("out"),
                     .resume = true,
                     .takes_other_recipe = true,
                     .stop = &listener.stop,
                     .comm = comm},
                    listener);
    return session.train();
  }
  void go_on(const RunConfig& config, int64_t stop_after = -1) const {
    Listener listener;
    listener.stop_after = stop_after;
    (void)go_on(config, listener);
  }
  [[nodiscard]] std::string refused(const RunConfig& config) const {
    const auto before = contents(in("out"));
    Listener listener;
    try {
      (void)go_on(config, listener);
    } catch (const Error& error) {
      EXPECT_EQ(contents(in("out")), before);
      return error.what();
    }
    ADD_FAILURE() << "went on";
    return "";
  }
  /// The run as it was.
  void put_back(const std::map<std::string, std::string>& files) const {
    remove_all(in("out"));
    for (const auto& [path, content] : files) {
      const size_t slash = path.rfind('/');
      make_folders(in(slash == std::string::npos ? "out" : "out/" + path.substr(0, slash)));
      write_file_atomically(in("out/" + path), content);
    }
  }
  [[nodiscard]] Json last_resume() const {
    Json last;
    for (const Json& line : metrics_lines())
      if (line.value("event", "") == "resume") last = line;
    return last;
  }
};

// A tensor of a checkpoint, by one scale for all of it where it has one.
Floats tensor(const std::string& folder, const std::string& name) {
  const io::Safetensors file(join_path(folder, "state.safetensors"));
  Floats values = io::to_floats(file.at(name)), scale = {1};
  for (const io::SafetensorsEntry& entry : file.entries())
    if (entry.name == name + ".scale") scale = io::to_floats(entry);
  for (float& value : values) value *= scale.at(0);
  return values;
}

/// A model of a recipe that holds what a checkpoint of another says.
class Carried {
 public:
  Carried(const RunConfig& config, const std::string& folder, const std::string& from)
      : run_(make_backend("cpu", {1}), config.seed),
        recipe_(Recipe::load(config.recipe)),
        model_(run_, run_model_config(config, *open_run_tokenizer(config)), recipe_,
               RecomputePolicy::none),
        trainer_(run_, model_, recipe_, step_settings(config, model_.config())) {
    model_.initialize(run_);
    const StateFiles files(folder);
    carried = carry_state(files, {Recipe::load(from), 0}, run_, model_, {recipe_, 0},
                          trainer_.settings().optimizer);
  }
  /// As a checkpoint; its folder.
  [[nodiscard]] std::string save(const std::string& folder) {
    RunIdentity identity;
    identity.model = Json::object();
    save_checkpoint(folder, 1, run_, identity, 1);
    return join_path(folder, "step-00000001");
  }

  CarriedState carried;

 private:
  Run run_;
  Recipe recipe_;
  Model model_;
  Trainer trainer_;
};

const char* const kUp = "blocks.0.mlp.up.weight";

TEST_F(SessionCarry, OtherProductsLeaveAllStatesAndEndInTheSameBitsHoweverInterrupted) {
  const auto of = [&](const char* recipe) { return wide(recipe, {"train.steps=8"}); };
  interrupt(of("bf16"), 3);
  const auto start = contents(in("out"));
  Listener listener;
  (void)go_on(of("nvfp4-all"), listener);
  EXPECT_TRUE(
      listener.heard("resuming at step 3 in the numbers of nvfp4-all, until here bf16: 0 of "))
      << listener.notices.back();
  const Json event = last_resume();
  EXPECT_EQ(event["step"], 3);
  EXPECT_EQ(event["changed"]["recipe"], Json::object({{"before", "bf16"}, {"now", "nvfp4-all"}}));
  EXPECT_EQ(event["changed"]["recipe.linear.fprop.weight"]["before"], "bf16");
  EXPECT_EQ(event["carried"]["weights"]["changed"], 0);
  EXPECT_EQ(event["carried"]["moments"]["changed"], 0);
  EXPECT_GT(event["carried"]["moments"]["values"].get<int64_t>(),
            event["carried"]["weights"]["values"].get<int64_t>());
  EXPECT_NE(read_file(in("out/run.toml"), kMaxFile)
                .find("# after step 3: recipe: \"bf16\" -> \"nvfp4-all\"\n"),
            std::string::npos);
  const auto want = contents(in("out"));
  put_back(start);
  go_on(of("nvfp4-all"), 4);
  interrupt(of("nvfp4-all"), 6, true);  // no longer another recipe
  go_on(of("nvfp4-all"));
  expect_same_end(want, 8);
  expect_whole_metrics(8, 3);
}

TEST_F(SessionCarry, MastersAndMomentsBecomeWhatTheyStandFor) {
  interrupt(wide("fp8-lm"), 3);
  Carried carried(wide("fp32"), checkpoint(3), "fp8-lm");
  const std::string wide_state = carried.save(in("carried"));
  for (const auto& [from, to] : {std::pair{"master.", "weight."}, std::pair{"moment1.", "moment1."},
                                 std::pair{"moment2.", "moment2."}})
    EXPECT_EQ(tensor(wide_state, std::string(to) + kUp),
              tensor(checkpoint(3), std::string(from) + kUp))
        << from;
  EXPECT_EQ(tensor(wide_state, "weight.norm.weight"), tensor(checkpoint(3), "weight.norm.weight"));
  EXPECT_EQ(carried.carried.changed_weights, 0u);
  EXPECT_EQ(carried.carried.changed_moments, 0u);

  // And back: FP16 holds what came from it.
  Carried back(wide("fp8-lm"), wide_state, "fp32");
  const std::string narrow = back.save(in("back"));
  for (const char* name : {"master.", "moment1.", "moment2."})
    EXPECT_EQ(tensor(narrow, std::string(name) + kUp),
              tensor(checkpoint(3), std::string(name) + kUp))
        << name;
  EXPECT_EQ(back.carried.changed_weights, 0u);
}

// Values of a map, and a power of values, are read as what they stand for.
TEST_F(SessionCarry, MomentsThatAreNoElementsBecomeWhatTheyStandFor) {
  interrupt(wide("fp32"), 3);
  write_file_atomically(in("parts.toml"),
                        "name = 'parts'\noptimizer.moment1 = {format = 'bf16', parts = 2}\n"
                        "optimizer.moment2 = {format = 'bf16', parts = 2}\n");
  const std::pair<std::string, double> kLost[] = {
      {"adam8bit", 0.02}, {"coat-adamw", 0.04}, {in("parts.toml"), 0x1p-16}};
  for (const auto& [recipe, most] : kLost)
    for (const char* moment : {"moment1.", "moment2."}) {
      SCOPED_TRACE(recipe + " " + moment);
      const Floats want = tensor(checkpoint(3), std::string(moment) + kUp);
      Carried narrow(wide(recipe), checkpoint(3), "fp32");
      EXPECT_GT(narrow.carried.changed_moments, 0u);
      Carried again(wide("fp32"), narrow.save(in("narrow")), recipe);
      const Floats have = tensor(again.save(in("wide")), std::string(moment) + kUp);
      ASSERT_EQ(have.size(), want.size());
      double lost = 0, all = 0;
      for (size_t i = 0; i < want.size(); ++i) {
        lost += std::fabs(have[i] - want[i]);
        all += std::fabs(want[i]);
      }
      EXPECT_GT(lost, 0);
      EXPECT_LE(lost, most * all);
    }
}

TEST_F(SessionCarry, CountsWhatIsRounded) {
  interrupt(wide("fp32"), 3);
  Carried carried(wide("naive-bf16"), checkpoint(3), "fp32");
  const std::string rounded = carried.save(in("carried"));
  uint64_t changed = 0, values = 0;
  const io::Safetensors file(join_path(checkpoint(3), "state.safetensors"));
  for (const io::SafetensorsEntry& entry : file.entries()) {
    if (!entry.name.starts_with("weight.")) continue;
    const Floats was = io::to_floats(entry), is = tensor(rounded, entry.name);
    for (size_t i = 0; i < was.size(); ++i) changed += was[i] != is[i] ? 1 : 0;
    values += was.size();
  }
  EXPECT_GT(changed, values / 2);
  EXPECT_EQ(carried.carried.changed_weights, changed);
  EXPECT_EQ(carried.carried.weights, values);
}

// A carry holds what the value lacks, and is given back.
TEST_F(SessionCarry, CarriesTakeWhatValuesLack) {
  interrupt(wide("fp32"), 3);
  const Floats want = tensor(checkpoint(3), std::string("weight.") + kUp);
  for (const auto& [recipe, bits] :
       {std::pair{"residual-bf16", 8 + 8}, std::pair{"kahan-bf16", 9 + 8}}) {
    SCOPED_TRACE(recipe);
    Carried narrow(wide(recipe), checkpoint(3), "fp32");
    Carried wide_again(wide("fp32"), narrow.save(in("narrow")), recipe);
    const Floats have = tensor(wide_again.save(in("wide")), std::string("weight.") + kUp);
    ASSERT_EQ(have.size(), want.size());
    for (size_t i = 0; i < want.size(); ++i)
      ASSERT_LE(std::fabs(have[i] - want[i]), std::ldexp(std::fabs(want[i]), 2 - bits)) << i;
  }
}

TEST_F(SessionCarry, DelayedScalesGoOnWhereTheirOperandIsTheSame) {
  interrupt(wide("fp8-delayed"), 3);
  const std::string recipe =
      "name = 'half'\ninherit = 'fp8-delayed'\n"
      "linear.wgrad = { grad='bf16', input='bf16' }\n"
      "linear.fprop.input = { format='fp8_e5m2', scaling='delayed' }\n";
  write_file_atomically(in("half.toml"), recipe);
  Carried carried(wide(in("half.toml")), checkpoint(3), "fp8-delayed");
  EXPECT_EQ(carried.carried.scales, 7u * 3u);
  EXPECT_EQ(carried.carried.new_scales, 7u);
  const std::string state = carried.save(in("carried"));
  const std::string layer = "scale.blocks.0.mlp.up.";
  for (const char* role : {"fprop.weight", "dgrad.grad"})
    for (const char* what : {".encode", ".history"})
      EXPECT_EQ(tensor(state, layer + role + what), tensor(checkpoint(3), layer + role + what));
  EXPECT_EQ(tensor(state, layer + "fprop.input.encode"), Floats{1});
}

TEST_F(SessionCarry, NamesTheKeysWhoseStatesMeanNothing) {
  interrupt(wide("bf16"), 3);
  const std::string muon = refused(wide("muon"));
  EXPECT_NE(
      muon.find("run.json: recipe: bf16, but this run has muon, which cannot go on from states of "
                "the former: optimizer.kind: \"adamw\" -> \"muon\": a recipe with the same"),
      std::string::npos)
      << muon;
  const std::string noise = refused(wide("gaussws-all"));
  EXPECT_NE(noise.find("the former: weight_noise.kind: \"none\" -> \"gaussws\""), std::string::npos)
      << noise;
  EXPECT_EQ(noise.find("optimizer.kind"), std::string::npos) << noise;
  const std::string unasked = refusal(wide("nvfp4-all"), true);
  EXPECT_NE(unasked.find("--recipe NAME to go on in the numbers of another"), std::string::npos)
      << unasked;
  const std::string done = refused(wide("nvfp4-all", {"train.steps=3"}));
  EXPECT_NE(done.find("all 3 steps are done in bf16, none is left for nvfp4-all"),
            std::string::npos)
      << done;
}

TEST_F(SessionCarry, AnEditedRecipeIsNoOtherOne) {
  const auto mine = [&](const std::string& keys) {
    write_file_atomically(in("mine.toml"), "name = 'mine'\ninherit = 'bf16'\n" + keys);
    return wide(in("mine.toml"));
  };
  interrupt(mine(""), 3);
  const std::string edited = refused(mine("linear.fprop.weight = 'mxfp8_e4m3'\n"));
  EXPECT_NE(edited.find("recipe: mine, but this run has mine (linear.fprop.weight: "),
            std::string::npos)
      << edited;
  EXPECT_NE(edited.find("under another name"), std::string::npos) << edited;
}

TEST_F(SessionCarry, AnyNumberOfRanksCarriesToTheSameBits) {
  write_file_atomically(in("rows.toml"),
                        "name = 'rows'\ninherit = 'fp8-lm'\n"
                        "gradient = { communicate = 'fp32', reduce = 'fp32', auto_scale = false,"
                        " shard = 'flat' }\n");
  const auto of = [&](const std::string& recipe, int ranks) {
    return wide(recipe, {"train.deterministic=global", "train.checkpoint_every=0", "model.ffn=96",
                         fmt::format("train.accumulate={}", 4 / ranks)});
  };
  for (const auto& recipes : {std::pair{std::string("fp32"), in("rows.toml")},
                              std::pair{in("rows.toml"), std::string("sr-bf16")}}) {
    const std::string &from = recipes.first, &to = recipes.second;
    SCOPED_TRACE(to);
    remove_all(in("out"));
    interrupt(of(from, 1), 2);
    const auto start = contents(in("out"));
    std::map<std::string, std::string> want;
    Json carried;
    for (const int ranks : {1, 2, 4}) {
      SCOPED_TRACE(ranks);
      put_back(start);
      run_ranks(ranks, [&](Comm& comm) {
        Listener listener;
        listener.stop_after = 4;
        (void)go_on(of(to, ranks), listener, &comm);
      });
      if (ranks == 1) carried = last_resume()["carried"];
      EXPECT_EQ(last_resume()["carried"], carried);
      go_on(of(to, 1));
      if (ranks == 1) want = contents(in("out"));
      expect_same_end(want, 6);
    }
    EXPECT_GT(
        carried["moments"]["changed"].get<int64_t>() + carried["weights"]["changed"].get<int64_t>(),
        0);
  }
}

}  // namespace
}  // namespace ng
