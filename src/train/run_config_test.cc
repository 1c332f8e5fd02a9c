#include "train/run_config.h"

#include <gtest/gtest.h>

#include <memory>

#include "base/error.h"
#include "data/memory_source.h"
#include "tokenizer/byte_tokenizer.h"
#include "train/run_inputs.h"

namespace ng {
namespace {

using Settings = std::vector<std::string>;

RunConfig config_of(std::string_view toml, const Settings& settings = {}) {
  return RunConfig::parse(toml, "run.toml", settings);
}

std::string error_of(std::string_view toml, const Settings& settings = {}) {
  try {
    (void)config_of(toml, settings);
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

TEST(RunConfig, AnEmptyFileIsTheDefaults) {
  const RunConfig config = config_of("");
  EXPECT_EQ(config.recipe, "fp32");
  EXPECT_EQ(config.seed, 1u);
  EXPECT_EQ(config.data.train, std::vector<std::string>{"kjv"});
  EXPECT_EQ(config.train.steps, 600);
  EXPECT_EQ(*config.train.min_lr, 1e-4);
  const ModelConfig model = config.model_config(257);
  EXPECT_EQ(model.architecture, Architecture::llama);
  EXPECT_EQ(model.vocab, 257);
  EXPECT_EQ(model.width, 256);
  EXPECT_EQ(model.head_dim, 64);
  EXPECT_EQ(model.ffn, 768);
  EXPECT_FALSE(model.attention_bias);
}

TEST(RunConfig, EveryKeyArrives) {
  const RunConfig config = config_of(R"(
recipe = "nvfp4"
seed = 7
[model]
architecture = "gpt2"
layers = 3
heads = 2
width = 96
ffn = 100
context = 33
vocab = 300
tie_embeddings = false
attention_bias = false
mlp_bias = false
norm_bias = false
norm_eps = 1e-6
gelu = "erf"
init_std = 0.05
[data]
train = ["a.txt", "b/*.txt"]
validation = "v.txt"
validation_split = "tail"
tokenizer = "tokenizer.json"
[train]
steps = 10
batch = 3
accumulate = 2
lr = 1
min_lr = 0.5
warmup = 4
schedule = "wsd"
decay_fraction = 0.5
decay_shape = "sqrt"
weight_decay = 0
betas = [0, 0.5]
eps = 1e-6
clip = 0
validate_every = 0
checkpoint_every = 5
keep_checkpoints = 1
save_dtype = "BF16"
recompute = "block"
backend = "ref"
threads = 2
)");
  const ModelConfig expected{.architecture = Architecture::gpt2,
                             .vocab = 300,
                             .layers = 3,
                             .heads = 2,
                             .kv_heads = 2,
                             .head_dim = 48,
                             .width = 96,
                             .ffn = 100,
                             .context = 33,
                             .tie_embeddings = false,
                             .norm_eps = 1e-6f,
                             .gelu = GeluKind::erf,
                             .init_std = 0.05f};
  EXPECT_EQ(config.model_config(257), expected);
  EXPECT_EQ(config.data.train, (std::vector<std::string>{"a.txt", "b/*.txt"}));
  EXPECT_EQ(config.data.validation_files, (std::vector<std::string>{"v.txt"}));
  EXPECT_EQ(config.data.validation_split, ValidationSplit::tail);
  EXPECT_EQ(config.train.backend, "ref");
  EXPECT_EQ(config.train.recompute, RecomputePolicy::block);
  EXPECT_EQ(config.train.beta1, 0);
  EXPECT_EQ(config.train.beta2, 0.5);
  const Schedule schedule = config.schedule();
  EXPECT_EQ(schedule.kind, ScheduleKind::wsd);
  EXPECT_EQ(schedule.decay_shape, DecayShape::sqrt);
  EXPECT_EQ(schedule.min_lr, 0.5);
  EXPECT_EQ(config_of(config.resolved_toml()).resolved_toml(), config.resolved_toml());
}

TEST(RunConfig, ResolvedTextNamesEveryKeyAndLoadsBack) {
  for (const char* text :
       {"", "model.preset='gpt2-124m'", "model.preset='llama-1b'", "model.init='somewhere'",
        "model.architecture='gpt2'", "data.ignored_keys=['a','b']"}) {
    const RunConfig config = config_of(text);
    const std::string resolved = config.resolved_toml();
    const RunConfig again = config_of(resolved);
    EXPECT_EQ(again.resolved_toml(), resolved) << text;
    if (config.model.init.empty()) {
      EXPECT_EQ(again.model_config(300), config.model_config(300));
    }
    for (const KeyFacts& key : run_key_facts()) {
      const bool is_below = key.key.starts_with("dpo.reference_storage.");
      EXPECT_TRUE(key.key.starts_with("model.") || key.standard.empty() || is_below ||
                  resolved.find(key.key + " = ") != resolved.npos)
          << key.key;
    }
  }
}

TEST(RunConfig, StepsMayBeEpochsThatAreStillToBeCounted) {
  const RunConfig config = config_of("train.steps = '0.5 epochs'");
  EXPECT_EQ(config.train.epochs, 0.5);
  EXPECT_NE(config.resolved_toml().find("train.steps = \"0.5 epochs\"\n"), std::string::npos);
  EXPECT_EQ(config_of("train.steps = '1 epoch'").train.epochs, 1);
  EXPECT_EQ(config_of("train.steps = '1 epoch'", {"train.steps=3"}).train.epochs, 0);
}

/// So many pairs, all to train on.
PreferencePairs pairs_of(int64_t count) {
  PreferencePairs pairs("run.toml");
  for (int64_t i = 0; i < count; ++i)
    pairs.add(R"({"prompt": "a", "chosen": "b", "rejected": "c"})", "p.jsonl", ByteTokenizer(), {});
  pairs.cut(count);
  return pairs;
}

// A step of 4 ranks has 4 · 3 micro-batches of 2 sequences: 24 of 10 tokens, or 12 pairs.
TEST(RunConfig, EpochsAreStepsOfAllRanks) {
  const std::string train = "[train]\nsteps = '2 epochs'\nbatch = 2\naccumulate = 3\n";
  const auto source = std::make_shared<MemorySource>(
      MaskedTokens{.ids = std::vector<int32_t>(1000), .is_target = std::vector<uint8_t>(1000, 1)},
      std::vector<int64_t>(1, 1));
  const Corpus corpus("run.toml", {source, {{0, 1000}}}, {source, {{1000, 0}}});
  RunConfig of_text = config_of(train);
  EXPECT_EQ(count_steps(of_text, corpus, 10, 4),
            "train.steps = \"2 epochs\" are 9 steps of 240 tokens: there are 1,000 to train on");
  EXPECT_EQ(of_text.train.steps, 9) << "2,000 / 240, rounded up";
  EXPECT_NE(of_text.resolved_toml().find("train.steps = 9\n"), std::string::npos);
  EXPECT_EQ(count_steps(of_text, corpus, 10, 4), "") << "they are counted";
  RunConfig of_pairs = config_of(train + "objective = 'dpo'\n");
  EXPECT_EQ(count_steps(of_pairs, pairs_of(30), 10, 4),
            "train.steps = \"2 epochs\" are 5 steps of 12 pairs: there are 30 to train on");
  RunConfig too_long = config_of("train.steps = '1e8 epochs'");
  EXPECT_THROW((void)count_steps(too_long, corpus, 1, 1), Error);
}

TEST(RunConfig, TheReferenceIsStoredAsThePolicyUnlessSaid) {
  EXPECT_FALSE(config_of("train.objective='dpo'").dpo.reference_storage.has_value());
  const std::string dpo = "train.objective = 'dpo'\ndpo.reference_storage = ";
  EXPECT_EQ(config_of(dpo + "'bf16'").dpo.reference_storage, operand_of("bf16"));
  EXPECT_FALSE(config_of(dpo + "'policy'").dpo.reference_storage.has_value());
  const RunConfig table = config_of(dpo + "{ format = 'fp8_e4m3', scale = 'pow2' }");
  EXPECT_EQ(table.dpo.reference_storage->scale, ScaleKind::pow2);
  EXPECT_EQ(config_of(table.resolved_toml()).dpo.reference_storage, table.dpo.reference_storage);
}

TEST(RunConfig, TheQuickstartLoads) {
  const RunConfig config = RunConfig::load(NG_SOURCE_DIR "/examples/quickstart.toml");
  EXPECT_EQ(config.recipe, "mxfp4-sr-rht");
  EXPECT_EQ(config.model_config(257).layers, 4);
}

// Of GaussWS's Table E.1 on its eight devices, and of the notes on precision-aware updates.
TEST(RunConfig, RunFilesOfPapersTrainOnTheirTokens) {
  const struct {
    const char* name;
    int64_t ranks, tokens;
  } kFiles[] = {{"gaussws-gpt2-124m", 8, 294'912'000'000},
                {"gaussws-gpt2-124m-fig3a", 8, 294'912'000'000},
                {"gaussws-llama2-134m", 8, 294'912'000'000},
                {"gaussws-llama2-1b", 8, 275'251'200'000},
                {"gaussws-llama2-1b-8to6", 8, 275'251'200'000},
                {"precision-aware-llama-200m", 1, 59'965'440}};
  for (const auto& [name, ranks, tokens] : kFiles) {
    const RunConfig config =
        RunConfig::load(fmt::format("{}/examples/papers/{}.toml", NG_SOURCE_DIR, name));
    const int64_t context = config.model_config(32'000).context;
    EXPECT_EQ(config.train.batch * config.train.accumulate * ranks * context * config.train.steps,
              tokens)
        << name;
  }
}

TEST(RunConfig, PresetsGiveWayToKeys) {
  const RunConfig config = config_of("[model]\npreset='gpt2-124m'\nlayers=2\nwidth=384");
  const ModelConfig model = config.model_config(257);
  EXPECT_EQ(model.architecture, Architecture::gpt2);
  EXPECT_EQ(model.layers, 2);
  EXPECT_EQ(model.heads, 12);
  EXPECT_EQ(model.head_dim, 32);
  EXPECT_EQ(model.ffn, 1536);
  EXPECT_EQ(model.vocab, 257) << "the tokenizer's, not the preset's";
  EXPECT_TRUE(model.attention_bias);
}

TEST(RunConfig, SizesFollowFromOthers) {
  const auto ffn = [](const std::string& text) { return config_of(text).model_config(2).ffn; };
  EXPECT_EQ(ffn("model.width=768\nmodel.heads=12"), 2048);
  EXPECT_EQ(ffn("model.width=136"), 384);
  EXPECT_EQ(ffn("model.architecture='gpt2'\nmodel.width=136"), 544);
  const ModelConfig wide_heads =
      config_of("model.width=100\nmodel.heads=3\nmodel.head_dim=40").model_config(2);
  EXPECT_EQ(wide_heads.head_dim, 40);
  EXPECT_EQ(wide_heads.kv_heads, 3);
}

TEST(RunConfig, WindowsAreOfAllLayersButThoseSaid) {
  const auto windows = [](const std::string& text) {
    const RunConfig config = config_of(text);
    EXPECT_EQ(config_of(config.resolved_toml()).model_config(2).windows,
              config.model_config(2).windows);
    return config.model_config(2).windows;
  };
  const std::string qwen = "model.architecture='qwen3'\nmodel.sliding_window=9\n";
  EXPECT_EQ(windows("model.architecture='mistral'\nmodel.sliding_window=9"), Windows{.size = 9});
  EXPECT_EQ(windows(qwen), Windows{.size = 9});
  EXPECT_EQ(windows(qwen + "model.full_layers=[0, 2]"),
            (Windows{.size = 9, .layers = {false, true, false, true}}));
  EXPECT_EQ(windows(qwen + "model.full_layers=[0, 1, 2, 3]"), Windows());
  EXPECT_EQ(windows(qwen + "model.context=9"), Windows());
  EXPECT_EQ(config_of("").resolved_toml().find("sliding_window"), std::string::npos);
}

TEST(RunConfig, SettingsComeLast) {
  const RunConfig config = config_of("recipe='bf16'\n[train]\nsteps=5",
                                     {"train.steps=50", "recipe=mxfp4-sr", "train.lr = 1e-2",
                                      "data.train=[\"x y.txt\"]", "train.steps=51"});
  EXPECT_EQ(config.train.steps, 51);
  EXPECT_EQ(config.recipe, "mxfp4-sr");
  EXPECT_EQ(config.train.lr, 1e-2);
  EXPECT_EQ(config.data.train, std::vector<std::string>{"x y.txt"});
  EXPECT_EQ(config_of("", {"model.init=some/folder"}).model.init, "some/folder");
  EXPECT_EQ(config_of("", {"data.train=a#b.txt"}).data.train, std::vector<std::string>{"a#b.txt"});
}

TEST(RunConfig, TokenizerMustFitTheVocabulary) {
  const RunConfig config = config_of("model.vocab=100");
  EXPECT_EQ(config.model_config(100).vocab, 100);
  EXPECT_THROW((void)config.model_config(101), Error);
}

struct Bad {
  std::string_view toml;
  std::string_view message;
};

constexpr Bad kBad[] = {
    {"trian.steps=1", "run.toml:1: trian: unknown key: the nearest known key is train"},
    {"train.step=1", "run.toml:1: train.step: unknown key: the nearest known key is train.steps"},
    {"\nlr=1", "run.toml:2: lr: unknown key: the nearest known key is train.lr"},
    {"'train.lr'=1", "run.toml:1: \"train.lr\": unknown key: the nearest known key is train.lr"},
    {"train=1", "run.toml:1: train: 1: a table of keys"},
    {"train.steps='many'",
     "run.toml:1: train.steps: \"many\": a whole number from 1 to 99999999, or \"N epochs\", N "
     "above 0"},
    {"train.steps=0",
     "run.toml:1: train.steps: 0: a whole number from 1 to 99999999, or \"N epochs\", N above 0"},
    {"train.steps=1.5",
     "run.toml:1: train.steps: 1.5: a whole number from 1 to 99999999, or \"N epochs\", N above 0"},
    {"train.steps={a=1}",
     "run.toml:1: train.steps: {a = 1}: a whole number from 1 to 99999999, or \"N epochs\", N "
     "above 0"},
    {"train.lr=-1", "run.toml:1: train.lr: -1: a number from 0 to 1000"},
    {"train.lr=nan", "run.toml:1: train.lr: nan: a number from 0 to 1000"},
    {"train.lr=1e-5\ntrain.min_lr=1e-4",
     "run.toml:2: train.min_lr: 0.0001 is above train.lr = 1e-05: at most train.lr"},
    {"train.betas=[0.9, 1.0]",
     "run.toml:1: train.betas: [0.9, 1]: [beta1, beta2], each at least 0 and, in FP32, below 1"},
    {"train.betas=[0.9, 0.999999999]",  // 1 in FP32
     "run.toml:1: train.betas: [0.9, 0.999999999]: [beta1, beta2], each at least 0 and, in FP32, "
     "below 1"},
    {"train.betas=0.9",
     "run.toml:1: train.betas: 0.9: [beta1, beta2], each at least 0 and, in FP32, below 1"},
    {"train.eps=0", "run.toml:1: train.eps: 0: a number from 1e-30 to 1"},
    {"train.save_dtype='bf16'", "run.toml:1: train.save_dtype: unknown \"bf16\": F32, BF16 or F16"},
    {"train.schedule='cosin'",
     "run.toml:1: train.schedule: unknown \"cosin\": cosine, linear, wsd or constant"},
    {"seed=-1", "run.toml:1: seed: -1: a whole number, at least 0"},
    {"model.context=0", "run.toml:1: model.context: 0: a whole number from 1 to 16000000"},
    {"[model]\nheads=3",
     "run.toml:2: model.heads: 3 heads in width 256: a divisor of model.width, "
     "or model.head_dim"},
    {"model.kv_heads=3", "run.toml:1: model.kv_heads: 3: a divisor of heads (4)"},
    {"model.preset='gpt3'",
     "run.toml:1: model.preset: unknown \"gpt3\": gpt2-124m, gpt2-345m, "
     "char-gpt, llama-134m, llama-1b, llama-3b or llama-70b"},
    {"model.preset='gpt2-124m'\nmodel.architecture='llama'",
     "run.toml:2: model.architecture: not that of model.preset \"gpt2-124m\": only one of the two"},
    {"model.init='m'\nmodel.layers=2",
     "run.toml:2: model.layers: given beside model.init: only "
     "model.init: the folder says all sizes"},
    {"model.sliding_window=0",
     "run.toml:1: model.sliding_window: 0: a whole number from 1 to 16000000"},
    {"model.sliding_window=500",
     "run.toml:1: model.sliding_window: 500 tokens: none, as llama has no windows: mistral, qwen2 "
     "and qwen3 have"},
    {"model.architecture='mistral'\nmodel.sliding_window=5\nmodel.full_layers=[1]",
     "run.toml:3: model.full_layers: a window of 5 tokens in 3 of 4 layers: all layers, as mistral "
     "always has it: qwen2 and qwen3 have it in some"},
    {"model.full_layers=[1]",
     "run.toml:1: model.full_layers: given without model.sliding_window: both, or neither"},
    {"model.sliding_window=5\nmodel.full_layers=[4]",
     "run.toml:2: model.full_layers: 4: layers from 0 to 3"},
    {"model.full_layers=[-1]",
     "run.toml:1: model.full_layers: [-1]: a list of layers, the first of which is 0"},
    {"model.full_layers=1",
     "run.toml:1: model.full_layers: 1: a list of layers, the first of which is 0"},
    {"data.train=[]",
     "run.toml:1: data.train: []: a string or a list of strings, none of them empty"},
    {"data.train=''",
     "run.toml:1: data.train: \"\": a string or a list of strings, none of them empty"},
    {"data.validation=1", "run.toml:1: data.validation: 1: a number from 0 to 0.9"},
    {"data.validation=true",
     "run.toml:1: data.validation: true: a share from 0 to 0.9 of the text, or files"},
    {"data.text_key='prompt'",
     "run.toml:1: data.text_key: \"prompt\": a key other than prompt, completion and messages"},
    {"data.text_key=''",
     "run.toml:1: data.text_key: \"\": a key other than prompt, completion and messages"},
    {"data.template='alpaca'",
     "run.toml:1: data.template: unknown \"alpaca\": none, chatml, llama3, qwen2.5 or qwen3"},
    {"train.objective='ppo'", "run.toml:1: train.objective: unknown \"ppo\": cross_entropy or dpo"},
    {"train.objective='dpo'\ntrain.batch=7",
     "run.toml:2: train.batch: 7 sequences, and a pair is two: an even number"},
    {"dpo.beta=0.2",
     "run.toml:1: dpo.beta: 0.2 without train.objective = \"dpo\": that, or neither"},
    {"dpo.beta=0", "run.toml:1: dpo.beta: 0: a number above 0 and at most 1000"},
    {"dpo.label_smoothing=0.5",
     "run.toml:1: dpo.label_smoothing: 0.5: a number at least 0 and below 0.5"},
};

TEST(RunConfig, BadInputIsNamedExactly) {
  for (const Bad& bad : kBad) EXPECT_EQ(error_of(bad.toml), bad.message) << bad.toml;
  const std::string of_backend = error_of("train.backend='gpu'");
  EXPECT_TRUE(of_backend.starts_with("run.toml:1: train.backend: unknown \"gpu\": ref"))
      << of_backend << " names those of this program";
}

TEST(RunConfig, BadSettingsAreNamed) {
  EXPECT_EQ(error_of("", {"train.stepz=5"}),
            "--set train.stepz=5: train.stepz: unknown key: the nearest known key is "
            "train.steps");
  EXPECT_EQ(error_of("", {"train.steps"}),
            "--set train.steps: not a setting: key=value, e.g. train.steps=50");
  EXPECT_EQ(error_of("", {"=5"}), "--set =5: not a setting: key=value, e.g. train.steps=50");
  EXPECT_EQ(error_of("", {"train.lr=1e-9", "train.min_lr=1"}),
            "--set train.min_lr=1: train.min_lr: 1 is above train.lr = 1e-09: at most train.lr");
  EXPECT_NE(error_of("", {"seed=1\ntrain.steps=2"}), "no error");
  EXPECT_NE(error_of("", {"seed=1\n[train]"}), "no error");
}

}  // namespace
}  // namespace ng
