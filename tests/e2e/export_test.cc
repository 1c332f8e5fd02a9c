// Models for other programs and theirs, as users have them: export, import, and the commands that
// take a .gguf or a quantized folder.
#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "base/files.h"
#include "base/json.h"
#include "io/gguf/gguf.h"
#include "io/safetensors.h"
#include "program.h"

namespace ng::e2e {
namespace {

class Export : public Program {
 protected:
  [[nodiscard]] std::string golden_model(const std::string& name) const {
    return golden("interop/models/" + name).string();
  }

  // The first step's logits of a golden model, for the reference's ids.
  [[nodiscard]] std::vector<float> logits(const std::string& model,
                                          const io::Safetensors& reference) const {
    std::vector<int64_t> ids = io::to_integers(reference.at("ids"));
    ids.push_back(ids.front());  // the last target, of which no logits are
    const std::vector<int32_t> tokens(ids.begin(), ids.end());
    const io::SafetensorsTensor tensor{"tokens", "I32", {1, 1, std::ssize(tokens)}, tokens.data()};
    io::write_safetensors(path("tokens.safetensors").string(), {tensor});
    (void)run_well({"trace", model, "tokens.safetensors", "trace.safetensors", "--steps", "1"});
    return io::to_floats(io::Safetensors(path("trace.safetensors").string()).at("logits"));
  }

  void expect_logits(const std::string& model, const io::Safetensors& reference,
                     const std::string& of) const {
    const std::vector<float> have = logits(model, reference);
    const std::vector<float> want = io::to_floats(reference.at("logits." + of));
    ASSERT_EQ(have.size(), want.size()) << of;
    for (size_t i = 0; i < want.size(); ++i)  // two orders of FP32 sums over 64 values
      ASSERT_NEAR(have[i], want[i], 1e-5) << of << ' ' << i;
  }

  [[nodiscard]] std::map<std::string, std::vector<float>> values_of(const std::string& file) const {
    std::map<std::string, std::vector<float>> values;
    const io::Safetensors tensors(path(file).string());
    for (const io::SafetensorsEntry& entry : tensors.entries())
      values[entry.name] = io::to_floats(entry);
    return values;
  }

  [[nodiscard]] std::set<std::string> names() const {
    std::set<std::string> names;
    for (const auto& item : fs::directory_iterator(folder_))
      names.insert(item.path().filename().string());
    return names;
  }
};

TEST_F(Export, WhatIsExportedComputesAsItsReference) {
  const io::Safetensors llama(golden_model("llama/reference.safetensors"));
  for (const std::string type : {"bf16", "q8_0", "mxfp4", "nvfp4"}) {
    const std::string file = type + ".gguf";
    EXPECT_EQ(run(  // q and k of a Llama are permuted there and back
                  {"export", golden_model("llama/hf"), file, "--to", "gguf", "--type", type})
                  .code,
              0);
    expect_logits(file, llama, type);
  }
  for (const std::string layout : {"nvfp4", "mxfp4", "fp8_channel", "modelopt"}) {
    EXPECT_EQ(
        run({"export", golden_model("llama/hf"), layout, "--to", "hf", "--type", layout}).code, 0);
    expect_logits(layout, llama, layout);
  }
  (void)run_well({"export", golden_model("llama/hf"), "fine", "--to", "hf", "--type", "fp8_fine",
                  "--block", "32x32"});
  expect_logits("fine", llama, "fp8_fine");
  const io::Safetensors gpt2(golden_model("gpt2/reference.safetensors"));
  (void)run_well({"export", golden_model("gpt2/hf"), "g.gguf", "--to", "gguf", "--type", "f16"});
  expect_logits("g.gguf", gpt2, "f16");
}

// The codes that the GEMMs of training saw: those that `cast` makes of the weights by the recipe's
// operand, tiles repeated by row.
TEST_F(Export, ShipsTheTrainedBits) {
  struct Case {
    std::string recipe, type;
    std::vector<std::string> cast;
  };
  const Case kCases[] = {{"nvfp4-all", "nvfp4", {"nvfp4", "--block", "16x16"}},
                         {"mxfp4-all", "mxfp4", {"mxfp4"}}};
  for (const auto& [recipe, type, format] : kCases) {
    (void)run_well({"train", "tiny.toml", "--out", recipe, "--recipe", recipe, "--set",
                    "train.steps=2", "--set", "model.architecture=llama"});
    const std::string model = recipe + "/model";
    EXPECT_EQ(run_well({"export", model, "a.gguf", "--to", "gguf", "--type", type, "--weights",
                        "trained"}),
              "a.gguf: gguf as " + type + ", codes of " + recipe + "\n");
    EXPECT_EQ(io::Gguf(path("a.gguf").string()).text("general.name"), recipe);
    EXPECT_EQ(run({"export", model, "folder", "--to", "hf", "--type", type, "--weights", "trained",
                   "--recipe", recipe})
                  .code,
              0);
    (void)run_well({"import", "a.gguf", "of_file"});
    (void)run_well({"import", "folder", "of_folder"});
    std::vector<std::string> cast = {
        "cast", model + "/model.safetensors", "cast.safetensors", "--tensor", "*proj*", "--format"};
    cast.insert(cast.end(), format.begin(), format.end());
    (void)run_well(cast);
    const io::Safetensors want(path("cast.safetensors").string());
    for (const char* folder : {"of_file", "of_folder"}) {
      const io::Safetensors have((path(folder) / "model.safetensors").string());
      for (const io::SafetensorsEntry& entry : have.entries()) {
        if (entry.name.find("proj") == std::string::npos) continue;
        EXPECT_EQ(io::to_floats(entry), io::to_floats(want.at(entry.name + ".values")))
            << recipe << ' ' << folder << ' ' << entry.name;
      }
    }
    for (const char* name : {"of_file", "of_folder", "folder"}) fs::remove_all(path(name));
  }
}

TEST_F(Export, TrainedBitsAreRefusedWhereTheyAreNoFunctionOfTheWeight) {
  (void)run_well({"train", "tiny.toml", "--out", "r", "--set", "train.steps=1", "--set",
                  "model.architecture=llama"});
  const std::set<std::string> before = names();
  const auto refused = [&](const std::string& recipe, const std::string& type,
                           const std::vector<std::string>& words) {
    expect_refused({"export", "r/model", "a.gguf", "--to", "gguf", "--type", type, "--weights",
                    "trained", "--recipe", recipe},
                   1, words);
  };
  refused("nvfp4-sr-forward", "nvfp4",
          {"recipe nvfp4-sr-forward: blk.0.attn_q.weight", "stochastic rounding"});
  refused("fp8-delayed", "bf16", {"blk.0.attn_q.weight", "a delayed scale"});
  refused("gaussws-od", "bf16", {"blk.0.attn_output.weight", "noise"});
  refused("fp32", "nvfp4",
          {"blk.0.attn_q.weight", "is fp32, which nvfp4 does not hold",
           "--keep 'blk.0.attn_q.weight=bf16'"});
  write_text(path("h.toml"), "inherit = \"mxfp4-all\"\n[linear.fprop]\nhadamard = 32\n");
  write_text(
      path("p.toml"),
      "inherit = \"mxfp4-all\"\n[linear.fprop.weight]\nformat = \"mxfp4\"\nprescale = 0.75\n");
  refused("./h.toml", "mxfp4", {"blk.0.attn_q.weight", "a Hadamard transform of 32"});
  refused("./p.toml", "mxfp4", {"blk.0.attn_q.weight", "a prescale of 0.75"});
  fs::remove(path("h.toml"));
  fs::remove(path("p.toml"));
  fs::copy(path("r/model"), path("alone"), fs::copy_options::recursive);
  expect_refused(
      {"export", "alone", "a.gguf", "--to", "gguf", "--type", "nvfp4", "--weights", "trained"}, 1,
      {"alone: --weights trained: lies in no run folder", "--recipe R"});
  fs::remove_all(path("alone"));
  EXPECT_EQ(names(), before);
}

TEST_F(Export, SaysWhatIsWrong) {
  const std::string llama = golden_model("llama/hf");
  const std::set<std::string> before = names();
  const auto gguf = [&](const std::vector<std::string>& more) {
    std::vector<std::string> args = {"export", llama, "out", "--to", "gguf", "--type"};
    args.insert(args.end(), more.begin(), more.end());
    return args;
  };
  expect_refused(gguf({"fp8_fine"}), 2, {"--type", "fp8_fine", "f32 f16 bf16 q8_0 mxfp4 nvfp4"});
  expect_refused(gguf({"f16", "--keep", "x"}), 2, {"--keep", "GLOB=TYPE"});
  expect_refused(gguf({"f16", "--keep", "x=q4_0"}), 2, {"--keep", "q8_0"});
  expect_refused(gguf({"f16", "--block", "32x32"}), 2, {"--block", "--to hf"});
  expect_refused(gguf({"f16", "--recipe", "fp32"}), 2, {"--recipe", "--weights trained"});
  expect_refused({"export", llama, "out", "--to", "hf", "--type", "fp8_fine", "--block", "0x3"}, 2,
                 {"--block", "64x32"});
  expect_refused({"export", llama, "out", "--to", "hf", "--type", "nvfp4", "--block", "32x32"}, 1,
                 {"--block", "fp8_block or fp8_fine"});
  expect_refused({"export", llama, "out", "--to", "hf", "--type", "mxfp4", "--share-scales"}, 1,
                 {"--share-scales", "nvfp4, modelopt or fp8_tensor"});
  expect_refused({"export", "none", "out", "--to", "gguf", "--type", "f16"}, 1, {"none"});
  expect_refused({"export", llama, "no/out.gguf", "--to", "gguf", "--type", "f16"}, 1,
                 {"no/out.gguf", "no folder no"});
  expect_refused({"export", llama, "tiny.txt", "--to", "gguf", "--type", "f16"}, 1,
                 {"tiny.txt", "not known as a GGUF file"});
  (void)run_well({"export", llama, "own.gguf", "--to", "gguf", "--type", "f16"});
  (void)run_well({"export", llama, "own.gguf", "--to", "gguf", "--type", "f16"});
  std::string theirs = text_of(path("own.gguf"));
  theirs.replace(theirs.find("general.file_type"), 17, "general.file_tyqe");
  write_file_atomically(path("own.gguf"), theirs);
  expect_refused({"export", llama, "own.gguf", "--to", "gguf", "--type", "f16"}, 1,
                 {"own.gguf", "not known as a GGUF file"});
  EXPECT_EQ(text_of(path("own.gguf")), theirs);
  fs::remove(path("own.gguf"));
  expect_refused({"export", llama, "tiny.txt", "--to", "hf", "--type", "mxfp8"}, 1,
                 {"tiny.txt", "is a file, not a folder"});
  expect_refused({"export", llama, llama, "--to", "hf", "--type", "bf16"}, 1, {"is the input"});
  EXPECT_EQ(names(), before);
}

TEST_F(Export, NamesDamagedFiles) {
  const std::string whole = text_of(golden_model("llama/nvfp4.gguf"));
  write_text(path("cut.gguf"), whole.substr(0, whole.size() - 100));
  std::string other = whole;
  other.replace(other.find("blk.0.attn_q.weight"), 19, "blk.0.attn_x.weight");
  write_text(path("other.gguf"), other);
  fs::copy(golden_model("llama/mxfp4"), path("folder"));
  std::string weights = text_of(path("folder/model.safetensors"));
  const size_t scale = weights.find("q_proj.weight_scale");
  weights.replace(scale, 19, "q_proj.weight_scalX");
  fs::remove(path("folder/model.safetensors"));  // the copy may be read-only
  write_text(path("folder/model.safetensors"), weights);
  const std::set<std::string> before = names();
  for (const char* out : {"out", "out.safetensors"})
    expect_refused({"import", "cut.gguf", out}, 1,
                   {"cut.gguf: \"output_norm.weight\"", "truncated"});
  expect_refused({"import", "other.gguf", "out"}, 1,
                 {"other.gguf: \"blk.0.attn_q.weight\": missing"});
  expect_refused({"generate", "other.gguf", "--prompt-ids", "1", "--ids"}, 1, {"other.gguf"});
  expect_refused(
      {"import", "folder", "out"}, 1,
      {"folder/model.safetensors: \"model.layers.0.self_attn.q_proj.weight_packed\": has "
       "no model.layers.0.self_attn.q_proj.weight_scale"});
  expect_refused({"import", "folder", "out.safetensors"}, 1,
                 {"q_proj.weight_packed\": has no model.layers.0.self_attn.q_proj.weight_scale"});
  expect_refused({"eval", "tiny.txt", "--data", "tiny.txt"}, 1,
                 {"tiny.txt", "is no folder and no GGUF file"});
  EXPECT_EQ(names(), before);
}

// The template that a run rendered chats by is its model's, wherever that goes.
TEST_F(Export, ChatTemplatesGoAlong) {
  (void)run_well({"train", "tiny.toml", "--out", "r", "--set", "train.steps=1", "--set",
                  "model.architecture=llama", "--set", "data.template=chatml"});
  const auto template_of = [&](const std::string& folder) {
    const Json config = Json::parse(text_of(path(folder + "/tokenizer_config.json")));
    return config.at("chat_template").get<std::string>();
  };
  const std::string jinja = template_of("r/model");
  EXPECT_NE(jinja.find("<|im_start|>"), std::string::npos) << jinja;
  (void)run_well({"export", "r/model", "a.gguf", "--to", "gguf", "--type", "bf16"});
  EXPECT_EQ(io::Gguf(path("a.gguf").string()).text("tokenizer.chat_template"), jinja);
  (void)run_well({"export", "r/model", "folder", "--to", "hf", "--type", "bf16"});
  EXPECT_EQ(template_of("folder"), jinja);
  (void)run_well({"import", "a.gguf", "back"});
  EXPECT_EQ(template_of("back"), jinja);
  write_text(path("chat.jsonl"),
             "{\"messages\":[{\"role\":\"user\",\"content\":\"a\"},"
             "{\"role\":\"assistant\",\"content\":\"fox\"}]}\n");
  for (const char* model : {"r/model", "a.gguf", "back"}) {  // without --template
    const Json seen = Json::parse(run_well({"eval", model, "--data", "chat.jsonl", "--json"}));
    EXPECT_EQ(seen["tokens"], 3 + 10) << model;  // the answer and <|im_end|>
  }
}

TEST_F(Export, CommandsTakeGguf) {
  const std::string types = golden("interop/types/types.gguf").string();
  const io::Safetensors want(golden("interop/types/types.safetensors").string());
  (void)run_well({"import", types, "types.safetensors"});
  (void)run_well({"import", golden_model("llama/mxfp4"), "folder.safetensors"});
  (void)run_well({"import", golden_model("llama/mxfp4"), "plain"});
  EXPECT_EQ(values_of("folder.safetensors"), values_of("plain/model.safetensors"));
  const io::Safetensors have(path("types.safetensors").string());
  for (const io::SafetensorsEntry& entry : want.entries())
    EXPECT_EQ(io::to_floats(have.at(entry.name)), io::to_floats(entry)) << entry.name;
  const Json seen = Json::parse(run_well({"inspect", types, "--json", "--format", "mxfp4"}));
  size_t count = 0;
  for (const Json& tensor : seen["files"][0]["tensors"]) {
    const std::string name = tensor["name"];
    if (want.find(name) == nullptr) continue;
    float amax = 0;
    for (const float value : io::to_floats(want.at(name))) amax = std::max(amax, std::fabs(value));
    EXPECT_EQ(tensor["amax"].get<float>(), amax) << name;
    EXPECT_EQ(tensor["dtype"], io::Gguf(types).find(name)->dtype) << name;
    ++count;
  }
  EXPECT_EQ(count, want.entries().size());
  (void)run_well({"cast", types, "of_gguf.safetensors", "--format", "nvfp4", "--tensor", "*8_0*"});
  (void)run_well({"cast", golden("interop/types/types.safetensors").string(),
                  "of_values.safetensors", "--format", "nvfp4", "--tensor", "*8_0*"});
  const io::Safetensors a(path("of_gguf.safetensors").string());
  const io::Safetensors b(path("of_values.safetensors").string());
  for (const io::SafetensorsEntry& entry : b.entries())
    EXPECT_EQ(io::to_floats(a.at(entry.name)), io::to_floats(entry)) << entry.name;
  const std::string model = golden_model("llama/nvfp4.gguf");
  const Json evaluated = Json::parse(run_well({"eval", model, "--data", "tiny.txt", "--json"}));
  EXPECT_GT(evaluated["loss"].get<double>(), 0);
  (void)run_well({"generate", model, "--prompt", "In", "--tokens", "3"});
}

}  // namespace
}  // namespace ng::e2e
