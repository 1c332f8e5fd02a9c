// llama.cpp must load the GGUF files that we write, and compute what their values say. Needs a
// Python with xllamacpp: $NG_PYTHON, else python3.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <map>
#include <random>

#include "base/files.h"
#include "base/json.h"
#include "base/program.h"
#include "infer/logits.h"
#include "infer/open_model.h"
#include "io/gguf/export.h"
#include "io/safetensors.h"
#include "support/scratch_folder.h"
#include "tokenizer/byte_tokenizer.h"

namespace ng {
namespace {

using LlamaCpp = ScratchFolder;

/// Texts of bytes and what they are as ids; logits behind the prompt's last token. llama.cpp rounds
/// activations: 0.03 of the logits' standard deviation. [interop.md 1.5]
Json expectation(const std::vector<int64_t>& prompt, const std::vector<float>& all) {
  const std::vector<std::string> texts = {"In the beginning", "  a\n\tb \xC3\xA9\xE6\xBC\xA2",
                                          "wait , what ?"};
  Json ids = Json::array();
  for (const std::string& text : texts) {
    std::vector<int> bytes;
    for (const char c : text) bytes.push_back(static_cast<uint8_t>(c));
    ids.push_back(bytes);
  }
  const std::vector<float> last(all.end() - 256, all.end());
  double squares = 0;
  for (const float value : all) squares += double{value} * value;
  return {{"texts", texts},
          {"ids", ids},
          {"prompt", prompt},
          {"logits", last},
          {"rms", 0.03 * std::sqrt(squares / static_cast<double>(all.size()))}};
}

/// Opens files with llama.cpp, each with what is expected of it.
class Peer {
 public:
  Peer() {
    const char* python = std::getenv("NG_PYTHON");
    command_ = {python != nullptr ? python : "python3",
                std::string(NG_SOURCE_DIR) + "/tests/hf/open_with_llama_cpp.py"};
  }
  void add(const std::string& file, const Json& expected) {
    write_file_atomically(file + ".json", json_text(expected));
    command_.insert(command_.end(), {file, file + ".json"});
  }
  void run() const {
    const ProgramResult result = run_program(command_, 1 << 20);
    if (!result.found || result.exit_code == 77)
      GTEST_SKIP() << "needs a Python with xllamacpp in NG_PYTHON " << result.output;
    EXPECT_EQ(result.exit_code, 0) << result.output;
  }

 private:
  std::vector<std::string> command_;
};

void export_as(const std::string& model, const std::string& file, const std::string& type) {
  (void)export_gguf({.model = model,
                     .out = file,
                     .name = "peer",
                     .type = type,
                     .keep = {},
                     .trained = {},
                     .threads = {}});
}

TEST_F(LlamaCpp, OpensWhatWeExport) {
  make_folders(folder_);
  Peer peer;
  const std::string models = std::string(NG_SOURCE_DIR) + "/tests/golden/interop/models/";
  const auto add = [&](const std::string& model, const std::string& type) {
    const std::string file = in(model + type);
    const io::Safetensors reference(models + model + "/reference.safetensors");
    export_as(models + model + "/hf", file, type);
    peer.add(file, expectation(io::to_integers(reference.at("ids")),
                               io::to_floats(reference.at("logits." + type))));
  };
  for (const char* type : {"bf16", "q8_0", "mxfp4", "nvfp4"}) add("llama", type);
  add("gpt2", "f16");
  peer.run();
}

/// Models of every architecture that llama.cpp knows otherwise than as the golden ones.
std::map<std::string, ModelConfig> more_models() {
  ModelConfig config{.architecture = Architecture::llama,
                     .vocab = 256,
                     .layers = 2,
                     .heads = 4,
                     .kv_heads = 2,
                     .head_dim = 32,
                     .width = 64,
                     .ffn = 128,
                     .context = 256,
                     .tie_embeddings = true,
                     .rope_theta = 100};
  std::map<std::string, ModelConfig> models;
  models["biases"] = config;
  models["biases"].attention_bias = true;
  models["scaled"] = config;
  models["scaled"].rope_scaling = {.factor = 8, .original_context = 40};
  models["mistral"] = config;
  models["mistral"].architecture = Architecture::mistral;
  models["mistral"].tie_embeddings = false;
  models["qwen2"] = config;
  models["qwen2"].architecture = Architecture::qwen2;
  models["qwen2"].attention_bias = true;
  models["qwen2"].head_dim = 16;
  models["qwen3"] = config;
  models["qwen3"].architecture = Architecture::qwen3;
  models["qwen3"].tie_embeddings = false;
  return models;
}

/// Values that let every tensor count in the logits.
void write_model(const std::string& folder, const ModelConfig& config) {
  const std::vector<ParameterSpec> table = parameter_table(config);
  std::minstd_rand random(1);
  const auto read = [&](size_t index, int64_t, std::span<float> values) {
    const ParameterSpec& spec = table[index];
    const bool is_norm = spec.is_vector && spec.name.ends_with("weight");
    const float size = spec.is_vector ? 0.5f : 1.5f / std::sqrt(static_cast<float>(spec.cols));
    std::uniform_real_distribution<float> draw(-size, size);
    for (float& value : values) value = draw(random) + (is_norm ? 1.0f : 0.0f);
  };
  io::write_hf_folder(folder, config, read, {.dtype = "BF16"});
  ByteTokenizer().save(folder);
}

std::vector<float> logits_of(const std::string& model, const std::vector<int64_t>& prompt) {
  const OpenModel open = open_model(model, Recipe::load("fp32"), {});
  const std::vector<int32_t> ids(prompt.begin(), prompt.end());
  return LogitsReader(*open.run, *open.model).read(ids);
}

// Our own logits are compared with those of transformers in train_golden_test.
TEST_F(LlamaCpp, ComputesEveryArchitectureAsWeDo) {
  make_folders(folder_);
  Peer peer;
  std::vector<int64_t> prompt;
  for (int64_t i = 0; i < 120; ++i) prompt.push_back(i * i % 251);
  for (const auto& [name, config] : more_models()) {
    write_model(in(name), config);
    for (const std::string& type : gguf_export_types()) {
      if (type == "nvfp4" && config.architecture == Architecture::qwen2) continue;  // refused
      const std::string file = in(name + type);
      export_as(in(name), file, type);
      peer.add(file, expectation(prompt, logits_of(file, prompt)));
    }
  }
  peer.run();
}

/// A golden tokenizer without what llama.cpp does not do: compose texts (NFC), and bytes of
/// characters that a Unigram has no token for.
Json without_what_it_lacks(const std::string& name) {
  Json tokenizer =
      read_json_file(NG_SOURCE_DIR "/tests/golden/tokenizers/" + name + ".json", 1 << 20);
  if (name == "qwen") tokenizer["normalizer"] = nullptr;
  if (name == "unigram") tokenizer["model"]["byte_fallback"] = false;
  return tokenizer;
}

// What we read of a file is what llama.cpp reads of it, but that we compose the texts of a Qwen.
TEST_F(LlamaCpp, EncodesAsWeDo) {
  make_folders(folder_);
  Peer peer;
  ModelConfig config = more_models().at("biases");
  config.vocab = 800;
  for (const std::string name :
       {"gpt2", "llama3", "qwen", "o200k", "metaspace", "prepend", "unigram"}) {
    write_model(in(name), config);
    write_file_atomically(in(name + "/tokenizer.json"), json_text(without_what_it_lacks(name)));
    write_file_atomically(in(name + "/tokenizer_config.json"), "{}");
    export_as(in(name), in(name + ".gguf"), "bf16");
    const auto tokenizer = open_model_tokenizer(in(name == "qwen" ? name : name + ".gguf"));
    Json texts = Json::array(), ids = Json::array();
    const std::string cases = NG_SOURCE_DIR "/tests/golden/tokenizers/" + name + ".cases.json";
    for (const Json& one : read_json_file(cases, 1 << 20)) {
      const auto text = one.at("text").get<std::string>();
      const bool is_blank = text.find_first_not_of(' ') == std::string::npos;
      if (name == "unigram" && is_blank) continue;  // gets no space more
      texts.push_back(text);
      ids.push_back(tokenizer->encode(text));
    }
    peer.add(in(name + ".gguf"), {{"texts", texts}, {"ids", ids}});
  }
  peer.run();
}

}  // namespace
}  // namespace ng
