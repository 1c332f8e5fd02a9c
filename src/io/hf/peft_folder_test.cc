// PEFT folders as models: what they mean, and what is refused by name.
#include "io/hf/peft_folder.h"

#include <algorithm>
#include <cmath>

#include "base/json.h"
#include "io/model_files.h"
#include "io/safetensors.h"
#include "support/hf_models.h"

namespace ng::io {
namespace {

constexpr const char* kQueryA = "base_model.model.model.layers.0.self_attn.q_proj.lora_A.weight";
constexpr const char* kQueryB = "base_model.model.model.layers.0.self_attn.q_proj.lora_B.weight";
constexpr const char* kQueryMagnitude =
    "base_model.model.model.layers.0.self_attn.q_proj.lora_magnitude_vector";
constexpr const char* kKeyA = "base_model.model.model.layers.0.self_attn.k_proj.lora_A.weight";
constexpr const char* kKeyB = "base_model.model.model.layers.0.self_attn.k_proj.lora_B.weight";

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
  /// A matrix, or with no columns a vector.
  void add(const std::string& name, int64_t rows, int64_t cols) {
    std::vector<float> values;
    for (int64_t i = 0; i < rows * std::max<int64_t>(cols, 1); ++i)
      values.push_back(0.25f * static_cast<float>(i - 3));
    const bool is_vector = cols == 0;
    tensors_.push_back({.name = name,
                        .dtype = "F32",
                        .shape = is_vector ? std::vector{rows} : std::vector{rows, cols}});
    values_.push_back(std::move(values));
  }
  void write() {
    write_file_atomically(in("peft/adapter_config.json"),
                          raw_config_.empty() ? json_text(config_) : raw_config_);
    for (size_t i = 0; i < tensors_.size(); ++i) tensors_[i].data = values_[i].data();
    write_safetensors(in("peft/adapter_model.safetensors"), tensors_);
  }
  /// All values of the model that the folder is.
  [[nodiscard]] std::vector<std::vector<float>> values() {
    write();
    const ModelConfig config = read_model_config(in("peft"));
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

  [[nodiscard]] int64_t index_of(const std::string& name) const {
    const std::vector<ParameterSpec> table = parameter_table(base_);
    const auto found = std::find_if(table.begin(), table.end(),
                                    [&](const ParameterSpec& spec) { return spec.name == name; });
    return found - table.begin();
  }
  static std::vector<float> values_of(const Rows<float>& rows) {
    return {rows.row(0), rows.row(0) + rows.rows * rows.cols};
  }

  const ModelConfig base_ = tiny_llama();
  Json config_;
  std::string raw_config_;  // in its place, unless empty
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
    EXPECT_EQ(read_model_config(in("peft")), base_);
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

TEST_F(PeftFolder, HasRanksAndAlphasByPattern) {
  add(kKeyA, 1, base_.width);
  add(kKeyB, base_.kv_heads * base_.head_dim, 1);
  const auto with_scales = [&](double query, double key) {
    config_ = {{"peft_type", "LORA"},
               {"base_model_name_or_path", in("base")},
               {"r", 2},
               {"lora_alpha", 2 * query},
               {"rank_pattern", {{"k_proj", 1}}},
               {"alpha_pattern", {{"self_attn.k_proj", key}}}};
    return values();
  };
  const std::vector<std::vector<float>> want = with_scales(1.5, 4);
  config_ = {{"peft_type", "LORA"},
             {"base_model_name_or_path", in("base")},
             {"r", 7},
             {"lora_alpha", 5},
             {"rank_pattern", {{"^model.layers.0.self_attn.[q]_proj", 2}, {".*", 1}}},
             {"alpha_pattern", {{"layers\\.\\d+\\.self_attn\\.k_proj", 4}, {"q_proj", 3}}}};
  raw_config_ = json_text(config_);
  // The first that matches counts, in the order of the file.
  const std::string sorted = R"("rank_pattern":{".*":1,"^model.layers.0.self_attn.[q]_proj":2})";
  const size_t at = raw_config_.find(sorted);
  ASSERT_NE(at, std::string::npos);
  raw_config_.replace(at, sorted.size(),
                      R"("rank_pattern":{"^model.layers.0.self_attn.[q]_proj":2,".*":1})");
  EXPECT_EQ(values(), want);
  raw_config_.clear();
  EXPECT_EQ(refusal(), std::string("adapter_model.safetensors: \"") + kQueryA +
                           "\": shape [2,8]: [1,8] by adapter_config.json and the base");
}

TEST_F(PeftFolder, OfDoraHasRowsOfGivenNorms) {
  config_["use_dora"] = true;
  add(kQueryMagnitude, base_.heads * base_.head_dim, 0);
  const std::vector<std::vector<float>> decomposed = values();
  config_["use_dora"] = false;
  tensors_.pop_back();
  const std::vector<float> magnitudes = std::move(values_.back());
  values_.pop_back();
  const std::vector<std::vector<float>> merged = values();
  const auto index = static_cast<size_t>(index_of("blocks.0.attn.q.weight"));
  const auto cols = static_cast<size_t>(base_.width);
  for (size_t r = 0; r < magnitudes.size(); ++r) {
    double squares = 0;  // exact, and so is each value of the row: multiples of 1/16 below 2^20
    for (size_t c = 0; c < cols; ++c)
      squares += static_cast<double>(merged[index][r * cols + c]) * merged[index][r * cols + c];
    for (size_t c = 0; c < cols; ++c)
      ASSERT_EQ(
          decomposed[index][r * cols + c],
          static_cast<float>(magnitudes[r] * static_cast<double>(merged[index][r * cols + c]) /
                             std::sqrt(squares)));
  }
}

TEST_F(PeftFolder, MayHaveWholeModules) {
  add("base_model.model.model.norm.weight", base_.width, 0);
  add("base_model.model.model.layers.1.mlp.up_proj.weight", base_.ffn, base_.width);
  add("base_model.model.model.layers.1.mlp.up_proj.bias", base_.ffn, 0);
  config_["modules_to_save"] = {"model.norm", "layers.1.mlp.up_proj"};
  const std::vector<std::vector<float>> merged = values();
  EXPECT_EQ(merged[static_cast<size_t>(index_of("norm.weight"))], values_[2]);
  EXPECT_EQ(merged[static_cast<size_t>(index_of("blocks.1.mlp.up.weight"))], values_[3]);
  EXPECT_EQ(merged[static_cast<size_t>(index_of("blocks.1.mlp.up.bias"))], values_[4]);
  config_["modules_to_save"] = {"lm_head"};
  EXPECT_EQ(refusal(),
            "adapter_model.safetensors: \"base_model.model.lm_head.weight\": missing: what "
            "modules_to_save in adapter_config.json names");
  config_["modules_to_save"] = {"model.norm", "up_proj", "score"};
  EXPECT_EQ(refusal(),
            "adapter_config.json: modules_to_save: \"score\": the base has no such module with "
            "weights: ends of names of its modules");
}

TEST_F(PeftFolder, MayHaveMoreTokensThanItsBase) {
  add("base_model.model.model.embed_tokens.weight", base_.vocab + 2, base_.width);
  EXPECT_EQ(refusal(),
            "adapter_model.safetensors: \"base_model.model.model.embed_tokens.weight\": shape "
            "[13,8]: [11,8] by adapter_config.json and the base");
  add("base_model.model.lm_head.weight", base_.vocab + 2, base_.width);
  write();
  ModelConfig larger = base_;
  larger.vocab += 2;
  EXPECT_EQ(read_model_config(in("peft")), larger);
}

// As PEFT has them: a copy that modules_to_save has made is no longer tied.
TEST_F(PeftFolder, UntiesAHeadFromWhatChangesAlone) {
  ModelConfig tied = base_;
  tied.tie_embeddings = true;
  Parameters parameters(tied);
  parameters.fill();
  write_hf_folder(in("base"), tied, parameters.reader());
  const std::string head = "base_model.model.lm_head.weight";
  add("base_model.model.model.embed_tokens.weight", base_.vocab, base_.width);
  const auto read = [&] {
    write();
    return read_model_config(in("peft"));
  };
  EXPECT_EQ(read(), tied) << "of an embedding of another size: both are given to the tensor";
  config_["modules_to_save"] = {"lm_head"};
  EXPECT_NE(refusal().find("\"" + head + "\": missing: what modules_to_save"), std::string::npos);
  config_["modules_to_save"] = {"embed_tokens"};
  EXPECT_EQ(read(), base_);
  EXPECT_EQ(values()[static_cast<size_t>(index_of("embed.weight"))], values_[2]);
  EXPECT_EQ(values()[static_cast<size_t>(index_of("head.weight"))],
            values_of(parameters.rows().front()));
  config_["ensure_weight_tying"] = true;
  EXPECT_EQ(read(), tied);
  config_["ensure_weight_tying"] = false;
  config_["modules_to_save"] = {"embed_tokens", "lm_head"};
  add(head, base_.vocab, base_.width);
  EXPECT_EQ(read(), tied) << "equal copies";
  values_.back()[3] += 1;
  EXPECT_EQ(read(), base_);
}

TEST_F(PeftFolder, TakesAnotherBaseThanItNames) {
  write();
  const std::string base = in("base");
  config_["base_model_name_or_path"] = "org/model";
  write();
  EXPECT_EQ(read_model_config({in("peft"), base}), base_);
  EXPECT_EQ(sizes_place({in("peft"), base}), base);
  EXPECT_EQ(error_of([&] {
              (void)read_model_config({base, base});
            }),
            "--base: \"" + base +
                "\" holds no adapters: beside a folder with an "
                "adapter_config.json");
  EXPECT_EQ(error_of([&] {
              (void)read_model_config({in("peft"), in("gone")});
            }),
            "--base: no folder \"" + in("gone") +
                "\": the folder of a whole model, or its .gguf "
                "file");
  EXPECT_EQ(error_of([&] {
              (void)read_model_config({in("peft"), in("peft")});
            }),
            "--base: \"" + in("peft") +
                "\" holds adapters itself: the folder of a whole model, "
                "or its .gguf file");
}

TEST_F(PeftFolder, RefusesWhatMeansOtherWeights) {
  const std::string only =
      " is not supported: adapters A and B, of DoRA and rsLoRA too, and whole modules";
  for (const auto& [key, value, said] :
       {std::tuple{"use_qalora", Json(true), "use_qalora: true" + only},
        {"use_of_tomorrow", Json{{"a", 1}}, "use_of_tomorrow: {\"a\":1}" + only},
        {"trainable_token_indices", Json{1, 2}, "trainable_token_indices: [1,2]" + only},
        {"target_parameters", Json{"w"}, "target_parameters: [\"w\"]" + only},
        {"bias", Json("some"), "bias: \"some\": \"none\", \"all\" or \"lora_only\""},
        {"peft_type", Json("IA3"), "peft_type: \"IA3\": \"LORA\""},
        {"r", Json(0), "r: 0: an integer from 1 to 65536"},
        {"lora_alpha", Json("x"), "lora_alpha: \"x\": a number from 0 to 1000000"},
        {"rank_pattern", Json{{"q_proj", 0}}, "rank_pattern.q_proj: 0: an integer from 1 to 65536"},
        {"alpha_pattern", Json{{"q[", 1}},
         "alpha_pattern.q[: missing terminating ] for character class: a name, or a regular "
         "expression of names"},
        {"modules_to_save", Json("lm_head"),
         "modules_to_save: \"lm_head\": a list of names of modules"},
        {"init_lora_weights", Json("pissa"),
         "init_lora_weights: \"pissa\" is not supported: adapters that were converted to go with "
         "the base as it is"},
        {"base_model_name_or_path", Json("org/model"),
         "base_model_name_or_path: no folder \"org/model\": --base FOLDER, a whole model: no hub "
         "is asked"},
        {"base_model_name_or_path", Json(nullptr),
         "base_model_name_or_path: missing: --base FOLDER, a whole model: no hub is asked"}}) {
    const Json before = config_;
    config_[key] = value;
    EXPECT_EQ(refusal(), "adapter_config.json: " + said);
    config_ = before;
  }
  config_["base_model_name_or_path"] = in("peft");
  EXPECT_NE(refusal().find("holds adapters itself: --base FOLDER"), std::string::npos);
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
  const std::string missing = "missing: all tensors of each adapter";
  EXPECT_EQ(with("base_model.model.lm_head.lora_A.weight"),
            file + "\"base_model.model.lm_head.lora_B.weight\": " + missing);
  EXPECT_EQ(with("base_model.model.model.embed_tokens.lora_embedding_A"),
            file + "\"base_model.model.model.embed_tokens.lora_embedding_B\": " + missing);
  const std::string nothing =
      "is nothing of the base: adapters of its linear layers and embedding, and whole modules of "
      "it";
  for (const char* name :
       {"x", "base_model.model.score.weight", "base_model.model.model.embed_tokens.lora_A.weight",
        "base_model.model.model.norm.lora_A.weight"})
    EXPECT_EQ(with(name), file + "\"" + name + "\": " + nothing);
  EXPECT_EQ(with("base_model.model.model.norm.lora_B.bias"),
            file +
                "\"base_model.model.model.norm.lora_B.bias\": is of a layer that has no bias in "
                "the base: lora_bias where there are biases");
  EXPECT_EQ(with(kQueryMagnitude), file + "\"" + kQueryMagnitude +
                                       "\": is of DoRA: \"use_dora\": true in adapter_config.json");
  values_[0][1] = INFINITY;
  EXPECT_EQ(refusal(), file + "\"" + kQueryA + "\": holds inf: finite weights");
  tensors_[0].shape = {base_.width, 2};
  EXPECT_EQ(refusal(), file + "\"" + kQueryA +
                           "\": shape [8,2]: [2,8] by adapter_config.json and "
                           "the base");
  tensors_.erase(tensors_.begin());
  values_.erase(values_.begin());
  EXPECT_EQ(refusal(), file + "\"" + kQueryA + "\": " + missing);
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
