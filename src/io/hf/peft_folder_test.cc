// PEFT folders as models: what they mean, and what is refused by name.
#include "io/hf/peft_folder.h"

#include <cmath>

#include "base/json.h"
#include "io/model_files.h"
#include "io/safetensors.h"
#include "support/hf_models.h"

namespace ng::io {
namespace {

constexpr const char* kQueryA = "base_model.model.model.layers.0.self_attn.q_proj.lora_A.weight";
constexpr const char* kQueryB = "base_model.model.model.layers.0.self_attn.q_proj.lora_B.weight";

/// A tiny Llama and, beside its first block's queries, adapters of rank 2.
class PeftFolder : public HfFolder {
 protected:
  void SetUp() override {
    HfFolder::SetUp();
    make_folders(in("peft"));
    Parameters parameters(base_);
    parameters.fill();
    write_hf_folder(in("base"), base_, parameters.reader());
    config_ = {{"peft_type", "LORA"},
               {"base_model_name_or_path", in("base")},
               {"r", 2},
               {"lora_alpha", 3}};
    add(kQueryA, 2, base_.width);
    add(kQueryB, base_.heads * base_.head_dim, 2);
  }
  void add(const std::string& name, int64_t rows, int64_t cols) {
    std::vector<float> values;
    for (int64_t i = 0; i < rows * cols; ++i) values.push_back(0.25f * static_cast<float>(i - 3));
    tensors_.push_back({.name = name, .dtype = "F32", .shape = {rows, cols}});
    values_.push_back(std::move(values));
  }
  void write() {
    write_file_atomically(in("peft/adapter_config.json"), json_text(config_));
    for (size_t i = 0; i < tensors_.size(); ++i) tensors_[i].data = values_[i].data();
    write_safetensors(in("peft/adapter_model.safetensors"), tensors_);
  }
  /// All values of the model that the folder is.
  [[nodiscard]] std::vector<std::vector<float>> values() {
    write();
    const ModelConfig config = read_model_config(in("peft"));
    EXPECT_EQ(config, base_);
    std::vector<std::vector<float>> values;
    copy_parameters(config, open_model_weights(in("peft"), config),
                    [&](size_t index, int64_t, std::span<const float> row) {
                      values.resize(index + 1);
                      values[index].insert(values[index].end(), row.begin(), row.end());
                    });
    return values;
  }
  /// What is said, behind the folder's path.
  std::string refusal() {
    const std::string said = error_of([&] { (void)values(); });
    return said.starts_with(in("peft/")) ? said.substr(in("peft/").size()) : said;
  }

  const ModelConfig base_ = tiny_llama();
  Json config_;
  std::vector<SafetensorsTensor> tensors_;
  std::vector<std::vector<float>> values_;
};

// Every product and sum here is exact, whatever the order.
TEST_F(PeftFolder, IsTheBaseWithTheAdaptersMergedIn) {
  Parameters base(base_);
  base.fill();
  const std::vector<ParameterSpec> table = parameter_table(base_);
  for (const double scale : {1.5, 2.0}) {
    if (scale == 2.0) config_["lora_alpha"] = 4;
    const std::vector<std::vector<float>> merged = values();
    for (size_t index = 0; index < table.size(); ++index) {
      const Rows<float>& of_base = base.rows()[index];
      const bool is_adapted = table[index].name == "blocks.0.attn.q.weight";
      for (int64_t r = 0; r < of_base.rows; ++r)
        for (int64_t c = 0; c < of_base.cols; ++c) {
          double want = of_base.row(r)[c];
          for (int64_t k = 0; is_adapted && k < 2; ++k)
            want += scale * values_[1][static_cast<size_t>(2 * r + k)] *
                    values_[0][static_cast<size_t>(k * of_base.cols + c)];
          ASSERT_EQ(merged[index][static_cast<size_t>(r * of_base.cols + c)], want)
              << table[index].name << " " << r << " " << c;
        }
    }
  }
}

TEST_F(PeftFolder, MayScaleByTheRootOfItsRank) {
  config_["use_rslora"] = true;
  config_["lora_alpha"] = 2;
  const std::vector<std::vector<float>> by_root = values();
  config_["use_rslora"] = false;
  config_["lora_alpha"] = 2 * std::sqrt(2.0);
  EXPECT_EQ(by_root, values());
}

TEST_F(PeftFolder, IsToldByItsConfig) {
  EXPECT_FALSE(is_peft_folder(in("peft")));
  write();
  EXPECT_TRUE(is_peft_folder(in("peft")));
  EXPECT_FALSE(is_peft_folder(in("base")));
  EXPECT_FALSE(is_peft_folder(in("peft/adapter_config.json")));
  EXPECT_EQ(sizes_place(in("peft")), in("base"));
  EXPECT_EQ(tokenizer_place(in("peft")), in("base"));
  write_file_atomically(in("peft/tokenizer.json"), "{}");
  EXPECT_EQ(tokenizer_place(in("peft")), in("peft"));
}

TEST_F(PeftFolder, RefusesWhatMeansMoreThanMatricesOfBlocks) {
  for (const auto& [key, value, said] :
       {std::tuple{"use_dora", Json(true),
                   "use_dora: true is not supported: adapters A and B alone"},
        {"rank_pattern", Json{{"q_proj", 5}},
         "rank_pattern: {\"q_proj\":5} is not supported: adapters A and B alone"},
        {"modules_to_save", Json{"lm_head"},
         "modules_to_save: [\"lm_head\"] is not supported: adapters A and B alone"},
        {"bias", Json("all"), "bias: \"all\": \"none\""},
        {"peft_type", Json("IA3"), "peft_type: \"IA3\": \"LORA\""},
        {"r", Json(0), "r: 0: an integer from 1 to 65536"},
        {"lora_alpha", Json("x"), "lora_alpha: \"x\": a number from 0 to 1000000"},
        {"init_lora_weights", Json("pissa"),
         "init_lora_weights: \"pissa\" is not supported: adapters that were converted to go with "
         "the base as it is"},
        {"base_model_name_or_path", Json("org/model"),
         "base_model_name_or_path: no folder \"org/model\": the folder of the base model, as seen "
         "from here: no hub is asked"}}) {
    const Json before = config_;
    config_[key] = value;
    EXPECT_EQ(refusal(), std::string("adapter_config.json: ") + said);
    config_ = before;
  }
  config_["base_model_name_or_path"] = in("peft");
  EXPECT_NE(refusal().find("holds adapters itself: the folder of a whole model"),
            std::string::npos);
}

TEST_F(PeftFolder, RefusesTensorsByName) {
  const auto with = [&](const std::string& name) {
    add(name, 2, 3);
    const std::string said = refusal();
    tensors_.pop_back();
    values_.pop_back();
    return said;
  };
  const std::string file = "adapter_model.safetensors: ";
  EXPECT_EQ(with("base_model.model.lm_head.lora_A.weight"),
            file +
                "\"base_model.model.lm_head.lora_A.weight\": is of the embedding or the head: "
                "adapters of linear layers of blocks alone");
  EXPECT_EQ(with("base_model.model.model.embed_tokens.lora_embedding_A"),
            file +
                "\"base_model.model.model.embed_tokens.lora_embedding_A\": is of the embedding "
                "or the head: adapters of linear layers of blocks alone");
  EXPECT_EQ(with("x"), file +
                           "\"x\": is no adapter of the base: lora_A and lora_B of linear "
                           "layers of its blocks");
  values_[0][1] = INFINITY;
  EXPECT_EQ(refusal(), file + "\"" + kQueryA + "\": holds inf: finite weights");
  tensors_[0].shape = {base_.width, 2};
  EXPECT_EQ(refusal(), file + "\"" + kQueryA +
                           "\": shape [8,2]: [2,8] by adapter_config.json and "
                           "the base");
  tensors_.erase(tensors_.begin());
  values_.erase(values_.begin());
  EXPECT_EQ(refusal(), file + "\"" + kQueryA + "\": missing: lora_A and lora_B of each layer");
  tensors_.clear();
  EXPECT_EQ(refusal(), file + "holds no tensor: adapters of the base's linear layers");
  remove_all(in("peft/adapter_model.safetensors"));
  EXPECT_NE(error_of([&] {
              (void)open_model_weights(in("peft"), base_);
            }).find("adapter_model.safetensors: cannot open"),
            std::string::npos);
}

}  // namespace
}  // namespace ng::io
