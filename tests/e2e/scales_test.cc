// Models whose weights are codes with scales, and scales that are not the weights', in every
// command that opens them.
#include <cmath>
#include <deque>
#include <map>

#include "base/json.h"
#include "io/safetensors.h"
#include "program.h"

namespace ng::e2e {
namespace {

const std::string kLeftOut =
    "narrowgauge: note: left out: 1 input_scale, 1 k_scale: of activations or the KV cache, no "
    "part of the weights\n";

class Scales : public Program {
 protected:
  void copy_model(const std::string& from, const std::string& to) const {
    fs::copy(golden("interop/models/llama/" + from), path(to));
  }
  /// Writes the weights of a folder anew, with `more` tensors of one FP32 value.
  void add(const std::string& folder, const std::vector<std::string>& more) const {
    const std::string file = path(folder + "/model.safetensors").string();
    std::vector<io::SafetensorsTensor> tensors;
    std::deque<std::vector<std::byte>> bytes;
    {
      const io::Safetensors stored(file);
      for (const io::SafetensorsEntry& entry : stored.entries()) {
        entry.read(0, bytes.emplace_back(entry.bytes));
        tensors.push_back({entry.name, entry.dtype, entry.shape, bytes.back().data()});
      }
    }
    const float one = 0.125f;
    for (const std::string& name : more) tensors.push_back({name, "F32", {1}, &one});
    fs::remove(file);
    io::write_safetensors(file, tensors);
  }
  [[nodiscard]] std::map<std::string, std::vector<float>> values_of(const std::string& file) const {
    std::map<std::string, std::vector<float>> values;
    const io::Safetensors tensors(path(file).string());
    for (const io::SafetensorsEntry& entry : tensors.entries())
      values[entry.name] = io::to_floats(entry);
    return values;
  }
};

TEST_F(Scales, OfActivationsAreLeftOutWithANote) {
  copy_model("fp8_channel", "plain");
  copy_model("fp8_channel", "static");
  add("static", {"model.layers.0.mlp.up_proj.input_scale", "model.layers.0.self_attn.k_scale"});
  write_text(path("init.toml"),
             "model.init = 'static'\ndata.train = 'tiny.txt'\n"
             "[train]\nsteps = 1\nbatch = 1\nlength = 16\nvalidate_every = 0\n");
  const std::vector<std::vector<std::string>> kCommands = {
      {"import", "static", "imported"},
      {"import", "static", "imported.safetensors"},
      {"eval", "static", "--data", "tiny.txt", "--json"},
      {"generate", "static", "--prompt", "the", "--tokens", "3"},
      {"export", "static", "x.gguf", "--to", "gguf", "--type", "bf16"},
      {"export", "static", "x", "--to", "hf", "--type", "mxfp8"}};
  for (const std::vector<std::string>& command : kCommands) {
    const Result result = run(command);
    EXPECT_EQ(result.code, 0) << command.front() << ": " << result.err;
    EXPECT_EQ(result.err, kLeftOut) << command.front();
  }
  const Result trained = run({"train", "init.toml", "--out", "r"});
  EXPECT_EQ(trained.code, 0) << trained.err;
  EXPECT_NE((trained.out + trained.err).find("left out: 1 input_scale, 1 k_scale"),
            std::string::npos)
      << trained.out << trained.err;
  (void)run_well({"import", "plain", "same"});
  EXPECT_EQ(values_of("imported/model.safetensors"), values_of("same/model.safetensors"));
  EXPECT_EQ(run_well({"eval", "plain", "--data", "tiny.txt", "--json"}),
            run({"eval", "static", "--data", "tiny.txt", "--json"}).out);
  add("static", {"model.layers.0.extra"});
  for (const char* command : {"imported2", "imported2.safetensors"}) {
    const Result result = run({"import", "static", command});
    EXPECT_EQ(result.code, std::string(command).ends_with("s") ? 0 : 1)
        << "a tensor that nobody knows: " << result.err;
  }
}

TEST_F(Scales, AreReadWhereModelOptSaysSoBesideTheConfig) {
  copy_model("modelopt", "m");
  Json config = Json::parse(text_of(path("m/config.json")));
  config.erase("quantization_config");
  fs::remove(path("m/config.json"));
  write_text(path("m/config.json"), config.dump());
  write_text(path("m/hf_quant_config.json"),
             R"({"producer": {"name": "modelopt"}, "quantization": {"quant_algo": "NVFP4",
             "kv_cache_quant_algo": "FP8", "group_size": 16, "exclude_modules": ["lm_head"]}})");
  (void)run_well({"import", "m", "a"});
  copy_model("modelopt", "n");
  (void)run_well({"import", "n", "b"});
  EXPECT_EQ(values_of("a/model.safetensors"), values_of("b/model.safetensors"));
}

// Of one file, of any architecture: import decodes what the tools read so, too.
TEST_F(Scales, OfASingleFile) {
  const std::string file = golden("interop/scales/comfy/model.safetensors").string();
  const io::Safetensors want(golden("interop/scales/comfy/expected.safetensors").string());
  EXPECT_EQ(run({"import", file, "all.safetensors"}).code, 0);
  const auto have = values_of("all.safetensors");
  EXPECT_EQ(have.size(), want.entries().size());
  for (const auto& [name, values] : have) EXPECT_EQ(values, io::to_floats(want.at(name))) << name;
  const std::string q = "b.0.q.weight";
  (void)run_well({"cast", file, "cast.safetensors", "--tensor", q, "--format", "bf16"});
  const std::vector<float> x = io::to_floats(want.at(q)),
                           cast = io::to_floats(io::Safetensors(path("cast.safetensors").string())
                                                    .at(q + ".values"));
  ASSERT_EQ(cast.size(), x.size());
  for (size_t i = 0; i < x.size(); ++i)
    EXPECT_NEAR(cast[i], x[i], std::fabs(x[i]) / 256) << "half a step of BF16";
  const Json inspected =
      Json::parse(run_well({"inspect", file, "--tensor", q, "--json"})).at("files").at(0);
  float amax = 0;
  for (const float value : x) amax = std::max(amax, std::fabs(value));
  EXPECT_EQ(inspected.at("tensors").at(0).at("amax").get<float>(), amax);
  (void)run_well({"matmul", file + ":" + q, file + ":" + q, "--out", "c.safetensors"});
  double sum = 0;
  for (size_t k = 0; k < 7; ++k) sum += double(x[k]) * x[k];
  EXPECT_NEAR(io::to_floats(io::Safetensors(path("c.safetensors").string()).at("C"))[0], sum,
              1e-5 * sum);
}

TEST_F(Scales, ThatNobodyKnowsStopEveryTool) {
  const std::vector<uint8_t> codes(64, 0x38);
  const std::vector<float> two = {2};
  io::write_safetensors(
      path("w.safetensors").string(),
      {{"p.weight", "F8_E4M3", {8, 8}, codes.data()}, {"p.scale", "F32", {1}, two.data()}});
  const std::vector<std::string> says = {
      "\"p.weight\": is codes of F8_E4M3, and p.scale beside it"};
  expect_refused({"import", "w.safetensors", "x.safetensors"}, 1, says);
  expect_refused({"inspect", "w.safetensors"}, 1, says);
  expect_refused({"cast", "w.safetensors", "x.safetensors", "--format", "mxfp4"}, 1, says);
  expect_refused({"matmul", "w.safetensors:p.weight", "w.safetensors:p.weight"}, 1, says);
  EXPECT_FALSE(fs::exists(path("x.safetensors")));
  (void)run_well({"inspect", "w.safetensors", "--tensor", "p.scale"});
  expect_refused({"import", "none.safetensors", "x.safetensors"}, 1, {"none.safetensors"});
}

}  // namespace
}  // namespace ng::e2e
