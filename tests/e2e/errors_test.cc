// What is wrong is said in one line with the right exit code, and nothing is half-written.
#include <algorithm>

#include "io/safetensors.h"
#include "program.h"

namespace ng::e2e {
namespace {

using Errors = Program;

// Files and folders below `folder`, to see that nothing was added.
std::vector<std::string> tree_of(const fs::path& folder) {
  std::vector<std::string> names;
  for (const auto& entry : fs::recursive_directory_iterator(folder))
    names.push_back(entry.path().string());
  std::sort(names.begin(), names.end());
  return names;
}

TEST_F(Errors, OfTheCommandLineAreCodeTwoAndNameTheNearest) {
  expect_refused({}, 2, {"--help"});
  expect_refused({"trian"}, 2, {"\"trian\"", "train"});
  expect_refused({"train", "tiny.toml", "--recpie", "fp32"}, 2, {"--recpie", "--recipe"});
  expect_refused({"train", "tiny.toml", "--recpie=fp32"}, 2, {"--recpie:", "--recipe"});
  expect_refused({"--jsno"}, 2, {"--jsno", "--help"});
  expect_refused({"train"}, 2, {"RUN", "train --help"});
  expect_refused({"train", "tiny.toml", "other.toml"}, 2, {"other.toml", "train --help"});
  expect_refused({"train", "tiny.toml", "--threads", "two"}, 2, {"--threads", "two"});
  expect_refused({"train", "tiny.toml", "--threads", "-1"}, 2, {"--threads", "-1"});
  expect_refused({"train", "tiny.toml", "--recipe"}, 2, {"--recipe"});
  expect_refused({"generate", "m"}, 2, {"--prompt"});
  expect_refused({"generate", "m", "--prompt", "a", "--prompt-ids", "1"}, 2, {"--prompt-ids"});
  for (const char* ids : {"1,x", "1,,2", "1,2,", ",1", "", "1;2", "3000000000"})
    expect_refused({"generate", "m", "--prompt-ids", ids}, 2, {"--prompt-ids", ids});
  expect_refused({"generate", "m", "--prompt", "a", "--seed", "-1"}, 2, {"--seed", "-1"});
  expect_refused({"trace", "m", "t", "out", "--seed", "-1"}, 2, {"--seed", "-1"});
  expect_refused({"cast", "in", "out", "--format", "mxfp4", "--seed", "1e3"}, 2, {"--seed"});
  expect_refused({"trace", "m", "t", "out", "--lr", "nan"}, 2, {"--lr", "nan"});
  expect_refused({"train", "tiny.toml", "--out", ""}, 2, {"--out", "empty"});
  for (const char* list : {"fp32,,bf16", "fp32,", ",fp32"})
    expect_refused({"compare", "tiny.toml", "--recipes", list}, 2, {"--recipes", "an empty entry"});
  expect_refused({"study", "gradients", "run", "--steps=1,,2"}, 2, {"--steps", "an empty entry"});
  expect_refused({"bench", "gemm", "--shape", "8,,8,8"}, 2, {"--shape", "an empty entry"});
  expect_refused({"bench"}, 2, {"bench --help"});
  expect_refused({"bench", "wholly-other"}, 2, {"command: see narrowgauge bench --help"});
  expect_refused({"bench", "gem"}, 2, {"\"gem\"", "gemm", "bench --help"});
  expect_refused({"bench", "gemm", "gem"}, 2, {"\"gem\"", "too many", "bench gemm --help"});
  expect_refused({"bench", "step", "--setps", "3"}, 2, {"--setps", "--steps", "bench step --help"});
  expect_refused({"formats", "--codes"}, 2, {"--codes"});
  expect_refused({"bench", "gemm", "--formats", "nvfp4", "mxfp4"}, 2, {"\"mxfp4\"", "too many"});
  expect_refused({"bench", "gemm", "--formats", "nvfp4/3x3"}, 1,
                 {"--formats: nvfp4/3x3", "[3, 3]"});
  expect_refused({"bench", "gemm", "--formats", "nvfp4/"}, 1, {"--formats: nvfp4/", "no block"});
  expect_refused({"compare", "tiny.toml"}, 2, {"--recipes"});
}

// One of each way in which a flag says what it takes.
TEST_F(Errors, OfFlagsSayWhatIsAllowed) {
  const std::pair<std::vector<std::string>, const char*> kCases[] = {
      {{"train", "tiny.toml", "--threads", "-1"},
       "--threads: Value -1 not in range 0 to 4096: see narrowgauge train --help"},
      {{"supervise", "tiny.toml", "-n", "0"},
       "--ranks: Value 0 not in range 1 to 65536: see narrowgauge supervise --help"},
      {{"cast", "in", "out", "--format", "mxfp4", "--rounding", "up"},
       "--rounding: up not in {nearest,stochastic}: see narrowgauge cast --help"},
      {{"cast", "in", "out", "--format", "mxfp4", "--sr-bits", "9"},
       "--sr-bits: 9 not in {8,16,32}: see narrowgauge cast --help"},
      {{"trace", "m", "t", "out", "--eps", "0"},
       "--eps: 0: a number from 1e-30 to 1: see narrowgauge trace --help"},
      {{"bench", "gemm", "--shape", "8,8"},
       "--shape: At least 3 required but received 2: see narrowgauge bench gemm --help"},
      {{"tokenizer", "train", "a", "--vocab", "3", "--pattern", "gpt2"},
       "FILES: At least 2 required but received 1: see narrowgauge tokenizer train --help"},
      {{"formats", "--markdown", "--json"},
       "--markdown excludes --json: see narrowgauge formats --help"},
      {{"formats", "--codes"}, "NAME with --codes is required: see narrowgauge formats --help"},
      {{"export", "--block", "3"},
       "--block: 3: rows x columns, as 64x32: see narrowgauge export --help"}};
  for (const auto& [args, line] : kCases) {
    const Result result = run(args);
    EXPECT_EQ(result.code, 2) << line;
    EXPECT_EQ(result.err, "narrowgauge: " + std::string(line) + "\n");
  }
}

TEST_F(Errors, OfEmptyArgumentsNameTheArgument) {
  const std::string model = golden("models/llama_tiny");
  const std::string tokens = model + "/reference.safetensors";
  const std::string matrix = model + "/model.safetensors:lm_head.weight";
  const std::pair<std::vector<std::string>, const char*> kCases[] = {
      {{"train", ""}, "RUN: "},
      {{"train", "tiny.toml", "--set", ""}, "--set: "},
      {{"compare", "tiny.toml", "--recipes", ""}, "--recipes: "},
      {{"eval", "", "--data", "tiny.txt"}, "MODEL: "},
      {{"eval", model, "--data", ""}, "--data: "},
      {{"generate", "", "--prompt", "a"}, "MODEL: "},
      {{"trace", model, tokens, ""}, "OUT: "},
      {{"matmul", "", matrix}, "A: "},
      {{"update", "", "out", "--recipe", "fp32"}, "IN: "},
      {{"matmul", matrix, matrix, "--a", ""}, "--a: "},
      {{"cast", "in", "out", "--format", "mxfp4", "--block", ""}, "--block: "},
      {{"recipes", ""}, "NAME: "},
      {{"bench", "step", "--model", ""}, "--model: "},
      {{"study", "gradients", ""}, "RUN: "},
      {{"info", "--isa", ""}, "--isa: "}};
  for (const auto& [args, name] : kCases) expect_refused(args, 2, {name, "an empty argument"});
}

TEST_F(Errors, OfInstructionSetsAndBackends) {
  expect_refused({"info", "--isa", "mmx"}, 1, {"--isa", "mmx", "scalar"});
  expect_refused({"train", "tiny.toml", "--backend", "gpu"}, 1, {"gpu", "ref", "cpu"});
}

TEST_F(Errors, OfRunFilesNameFileAndKey) {
  write_text(path("recipe.toml"), "recipe = 'nope'");
  write_text(path("tokens.toml"), "data.tokenizer = 'nope'");
  const auto before = tree_of(folder_);
  expect_refused({"train", "no.toml"}, 1, {"no.toml", "No such file"});
  expect_refused({"train", "recipe.toml"}, 1, {": recipe.toml: recipe: ", "\"nope\""});
  expect_refused({"train", "recipe.toml", "--recipe", "bf61"}, 1, {": recipe: ", "\"bf16\""});
  expect_refused({"train", "tokens.toml"}, 1, {": tokens.toml: data.tokenizer: ", "\"nope\""});
  expect_refused({"train", "."}, 1, {".: "});
  expect_refused({"train", "tiny.toml", "--set", "train.stesp=3"}, 1,
                 {"train.stesp", "train.steps"});
  expect_refused({"train", "tiny.toml", "--set", "train.steps=-3"}, 1, {"train.steps", "-3"});
  expect_refused({"train", "--set", "model.init=", "tiny.toml"}, 1, {"model.init", "folder"});
  expect_refused({"train", "tiny.toml", "--set", "nonsense"}, 1, {"--set", "key=value"});
  expect_refused({"train", "tiny.toml", "--recipe", "mxfp5"}, 1, {"mxfp5", "mxfp6"});
  expect_refused({"train", "tiny.toml", "--set", "data.train=none.txt"}, 1, {"none.txt"});
  expect_refused({"train", "tiny.toml", "--set", "model.width=63"}, 1, {"model.", "63"});
  EXPECT_EQ(tree_of(folder_), before) << "nothing was written";
}

TEST_F(Errors, OfMissingFilesNameWhoAskedForThem) {
  write_text(path("child.toml"), "inherit = './none.toml'");
  write_text(path("run.toml"), "recipe = 'none.toml'");
  write_text(path("init.toml"), "model.init = 'none'\ndata.train = 'tiny.txt'");
  const char* missing = "No such file";
  expect_refused({"recipes", "./child.toml"}, 1, {"child.toml:1: inherit: ", "none.toml", missing});
  expect_refused({"train", "run.toml"}, 1, {"run.toml: recipe: \"none.toml\": ", missing});
  expect_refused({"train", "tiny.toml", "--recipe", "none.toml"}, 1, {": none.toml: ", missing});
  expect_refused({"train", "init.toml"}, 1, {"init.toml: model.init: ", "\"none\""});
  expect_refused({"bench", "step", "--model", "gpt5"}, 1, {": --model: unknown \"gpt5\""});
}

TEST_F(Errors, OfNamesThatTomlCannotSay) {
  write_text(path("\xFF.toml"), "linear = 'bf16'");
  const auto before = tree_of(folder_);
  expect_refused({"train", "tiny.toml", "--recipe", "\xFF.toml"}, 1, {"not UTF-8"});
  expect_refused({"compare", "tiny.toml", "--recipes", "fp32,\xFF.toml"}, 1, {"not UTF-8"});
  expect_refused({"train", "tiny.toml", "--set", "data.train=\xFF.txt"}, 1, {"--set", "not UTF-8"});
  EXPECT_EQ(tree_of(folder_), before) << "nothing was written";
  write_text(path("copy.toml"), run_well({"recipes", "\xFF.toml"}));
  (void)run_well({"recipes", "./copy.toml"});
}

TEST_F(Errors, OfModelsAreFoundBeforeTheModelIsMade) {
  fs::copy(golden("models/llama_tiny"), path("model"));
  std::string config = text_of(path("model/config.json"));
  const std::string layers = "\"num_hidden_layers\": ";
  const size_t at = config.find(layers) + layers.size();
  config.replace(at, config.find(',', at) - at, "10000");
  write_text(path("model/config.json"), config);
  const auto start = std::chrono::steady_clock::now();
  expect_refused({"generate", "model", "--prompt-ids", "1", "--ids"}, 1,
                 {"model.layers.2.input_layernorm.weight", "missing"});
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(10));
}

// A value is that of the flag that gave it, also where it is others that it contradicts.
TEST_F(Errors, OfSettingsNameTheFlag) {
  const auto refuse = [&](const std::string& setting, const std::vector<std::string>& words) {
    std::vector<std::string> all = words;
    all.push_back(": --set " + setting);
    expect_refused({"train", "tiny.toml", "--set", setting}, 1, all);
  };
  write_text(path("short.txt"), "short");
  refuse("recipe=fp3", {"recipe: unknown \"fp3\""});
  refuse("data.tokenizer=none", {"data.tokenizer: \"none\""});
  refuse("data.train=none", {"data.train: "});
  refuse("data.validation=none", {"data.validation: "});
  refuse("data.train=short.txt", {"data.train = short.txt"});
  refuse("model.context=5000", {"data.train = tiny.txt"});
  refuse("model.vocab=9", {"model.vocab: 9"});
  refuse("model.width=63", {"model.heads: 2 heads in width 63"});
  refuse("model.width=40000", {"model.head_dim: 20000"});
  refuse("model.heads=64", {"model.head_dim: 1: an even number"});
  refuse("model.kv_heads=3", {"model.kv_heads: 3: a divisor of heads (2)"});
  refuse("model.init=m", {"model.layers: given beside model.init"});
  refuse("model.preset=gpt3", {"model.preset: "});
  expect_refused({"train", "tiny.toml", "--set", "train.min_lr=0.001", "--set", "train.lr=1e-9"}, 1,
                 {": --set train.lr=1e-9: train.min_lr: 0.001 is above train.lr = 1e-09"});
  const Result compare =
      run({"compare", "tiny.toml", "--recipes", "bf16", "--set", "data.validation=0"});
  EXPECT_NE(compare.err.find(": --set data.validation=0: data.validation: nothing to validate on"),
            std::string::npos)
      << compare.err;
  EXPECT_FALSE(fs::exists(path("runs"))) << "nothing was begun";
}

TEST_F(Errors, OfSizesAreSaidBeforeARunIsBegun) {
  const std::vector<std::string> train = {"train", "tiny.toml", "--out", "o", "--set"};
  const auto with = [&](const std::vector<std::string>& settings) {
    std::vector<std::string> args = train;
    for (const std::string& setting : settings) args.insert(args.end(), {"--set", setting});
    args.erase(args.begin() + 4);
    return args;
  };
  expect_refused(with({"model.heads=1", "model.head_dim=7170"}), 1, {"head_dim", "7168"});
  fs::resize_file(path("tiny.txt"), 20'000'000);
  expect_refused(
      with({"model.context=16000000", "train.batch=1048576", "train.accumulate=1048576"}), 1,
      {"train.accumulate=1048576: train.batch: ", "smaller batch"});
  EXPECT_FALSE(fs::exists(path("o")));
}

TEST_F(Errors, OfTextsThatAreTooShort) {
  write_text(path("ten.txt"), "ten bytes!");
  write_text(path("empty.txt"), "");
  expect_refused({"train", "tiny.toml", "--set", "data.train=ten.txt"}, 1,
                 {"data.train", "10 tokens", "33"});
  expect_refused({"train", "tiny.toml", "--set", "data.train=empty.txt"}, 1, {"empty.txt"});
}

TEST_F(Errors, OfFoldersThatCannotBeWritten) {
  write_text(path("file"), "no folder");
  expect_refused({"train", "tiny.toml", "--out", "file/run"}, 1, {"file"});
  expect_refused({"cast", golden("casts/float16.safetensors"), "file/out", "--format", "mxfp4"}, 1,
                 {"file"});
  (void)run_well({"train", "tiny.toml", "--out", "run", "--set", "train.steps=1"});
  expect_refused({"train", "tiny.toml", "--out", "run"}, 1, {"run", "already holds a run"});
}

TEST_F(Errors, OfFullDisksBehindStandardOutput) {
  for (const std::vector<std::string>& args : {std::vector<std::string>{"formats"},
                                               {"info", "--json"},
                                               {"recipes"},
                                               {"--help"},
                                               {"--version"}}) {
    const Result result = Process(args, folder_, "/dev/full").wait();
    EXPECT_EQ(result.code, 1) << args.front();
    EXPECT_NE(result.err.find("standard output: cannot be written"), std::string::npos)
        << result.err;
  }
  const Result train = Process({"train", "tiny.toml", "--out", "run"}, folder_, "/dev/full").wait();
  EXPECT_EQ(train.code, 1);
  EXPECT_NE(train.err.find("standard output"), std::string::npos) << train.err;
  EXPECT_TRUE(fs::exists(path("run/model/model.safetensors"))) << "the run itself is complete";
}

TEST_F(Errors, OfModelFolders) {
  (void)run_well({"train", "tiny.toml", "--out", "run", "--set", "train.steps=1"});
  const auto generate = [&](const std::string& model) {
    return std::vector<std::string>{"generate", model, "--prompt", "a"};
  };
  expect_refused(generate("nowhere"), 1, {"nowhere: no such folder", "config.json"});
  fs::create_directories(path("empty"));
  expect_refused(generate("empty"), 1,
                 {"empty: holds no model and no run: a model folder: ", "run.toml"});
  expect_refused({"eval", "empty", "--data", "tiny.txt"}, 1, {"empty: holds no model and no run"});
  expect_refused({"generate", "run/model", "--prompt", ""}, 1, {"--prompt"});
  expect_refused({"generate", "run/model", "--prompt-ids", "1,256"}, 1, {"--prompt-ids", "256"});
  expect_refused({"generate", "run/model", "--prompt", "a", "--temperature", "-1"}, 1,
                 {"--temperature", "-1"});
  expect_refused({"eval", "run/model", "--data", "nothing.txt"}, 1, {"nothing.txt"});
  write_text(path("one.txt"), "1");
  expect_refused({"eval", "run/model", "--data", "one.txt"}, 1, {"one.txt", "2"});
  expect_refused({"bench", "step", "--model", "run/model", "--seq", "33"}, 1, {"--seq", "32"});
  expect_refused({"bench", "step", "--model", "gpt5"}, 1, {"gpt5", "gpt2"});
  expect_refused({"bench", "gemm", "--formats", "nvfp4/16x32"}, 1, {"nvfp4/16x32", "C = 16"});
  expect_refused({"bench", "gemm", "--formats", "fp32/tile32"}, 1, {"fp32/tile32", "BF16 does"});
  const std::string whole = text_of(path("run/model/model.safetensors"));
  for (const size_t size :
       {size_t{0}, size_t{4}, size_t{100}, whole.size() / 2, whole.size() - 1}) {
    write_text(path("run/model/model.safetensors"), whole.substr(0, size));
    expect_refused(generate("run/model"), 1, {"model.safetensors"});
  }
  write_text(path("run/model/model.safetensors"), whole);
  write_text(path("run/model/config.json"), "{\"model_type\": \"bert\"}");
  expect_refused(generate("run/model"), 1, {"config.json", "bert"});
}

TEST_F(Errors, OfTracesAndCasts) {
  const std::string model = golden("models/llama_tiny");
  const std::string tokens = golden("models/llama_tiny/reference.safetensors");
  expect_refused({"trace", model, golden("casts/float16.safetensors"), "out"}, 1, {"tokens"});
  expect_refused({"trace", model, tokens, tokens}, 1, {tokens, "is the input"});
  expect_refused({"trace", model, tokens, model + "/config.json"}, 1, {"config.json", "the input"});
  expect_refused({"trace", model, tokens, "out", "--steps", "4"}, 1, {"tokens", "3 steps", "4"});
  const std::string casts = golden("casts/float16.safetensors");
  const auto refuse = [&](std::vector<std::string> flags, const std::vector<std::string>& words) {
    flags.insert(flags.begin(), {"cast", casts, "out"});
    expect_refused(flags, 1, words);
  };
  refuse({"--format", "mxpf4"}, {"mxpf4", "mxfp4"});
  refuse({"--format", "fp32"}, {"--format", "fp32"});
  refuse({"--format", "mxfp4", "--overflow", "special"}, {"--overflow"});
  refuse({"--format", "mxfp4", "--scale-rule", "up"}, {"--scale-rule", "floor"});
  refuse({"--format", "mxfp4", "--block", "0x32"}, {"--block"});
  refuse({"--format", "mxfp4", "--axis", "1"}, {"--axis", "1 dimensions"});
  refuse({"--format", "mxfp4", "--tensor", "none*"}, {"none*"});
  refuse({"--format", "e2m1", "--block", "1x32"},
         {"--block", "1x32", "without a scale", "--scale"});
  refuse({"--format", "ue4m3", "--scale", "fp32"}, {"--format", "ue4m3", "takes no scale"});
  refuse({"--format", "e2m1", "--scale", "e8m0"}, {"--scale", "e8m0", "without a block"});
  refuse({"--format", "mxfp4", "--sr-bits", "8"}, {"--sr-bits", "--rounding stochastic"});
  expect_refused({"cast", "", "out", "--format", "mxfp4"}, 1, {"empty path"});
  expect_refused({"cast", casts, "", "--format", "mxfp4"}, 1, {"empty path"});
  const int32_t integers[] = {1, 2};
  io::write_safetensors(path("ints"), {{"x", "I32", {2}, integers}});
  expect_refused({"cast", "ints", "out", "--format", "mxfp4"}, 1, {"ints", "among its 1"});
  write_text(path("short"), text_of(casts).substr(0, 1000));
  expect_refused({"cast", "short", "out", "--format", "mxfp4"}, 1, {"short"});
  EXPECT_FALSE(fs::exists(path("out")));
}

TEST_F(Errors, ShowNoControlCharactersOfNames) {
  const Result result = run({"train", "a\x1b[31m\nb.toml"});
  EXPECT_EQ(result.code, 1);
  EXPECT_NE(result.err.find("a\\x1b[31m\\nb.toml"), std::string::npos) << result.err;
}

TEST_F(Errors, OfDamagedCheckpointsAreSkippedByName) {
  (void)run_well({"train", "tiny.toml", "--out", "run"});
  const std::string wanted = weights("run");
  const fs::path newest = path("run/checkpoints/step-00000012/state.safetensors");
  std::string bytes = text_of(newest);
  bytes[bytes.size() / 2] ^= 1;
  write_text(newest, bytes);
  const Result resumed = run({"train", "tiny.toml", "--out", "run", "--resume"});
  EXPECT_EQ(resumed.code, 0) << resumed.err;
  EXPECT_NE(resumed.err.find("step-00000012/state.safetensors"), std::string::npos) << resumed.err;
  EXPECT_EQ(weights("run"), wanted);
}

}  // namespace
}  // namespace ng::e2e
