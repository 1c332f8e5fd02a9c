// Learned bit-widths as formats: of whole runs, of single layers, and what is refused.
#include "learned/learned.h"

#include <gtest/gtest.h>

#include <cmath>

#include "format/codec.h"
#include "io/hf/folder.h"
#include "learned/files.h"
#include "numbers/narrow_matrix.h"
#include "run/backends.h"
#include "support/session_runs.h"
#include "train/run_inputs.h"

namespace ng {
namespace {

// b_t moves by at most 6 steps of 1e-2 times b_init - 4 in such a run, so each stays between the
// bounds of its format.
const char* const kNoiseOfManyWidths = R"(
inherit = "gaussws-all"
[[override]]
layers = ["*.mlp.up"]
weight_noise.b_init = 3.5
[[override]]
layers = ["*.mlp.gate"]
weight_noise.b_init = 4.6
[[override]]
layers = ["*.mlp.down"]
weight_noise.b_init = 10.5
[[override]]
layers = ["*.attn.out"]
weight_noise.b_init = 14
)";

class Learned : public SessionRuns {
 protected:
  [[nodiscard]] RunConfig noisy(const std::string& recipe = kNoiseOfManyWidths) const {
    return config({recipe_file(recipe), "model.layers=2", "model.width=40", "model.head_dim=20",
                   "model.ffn=70", "train.keep_checkpoints=9"});
  }
  /// Returns the validation loss at the end.
  double train_well(const RunConfig& run, const std::string& out = "out") const {
    Listener listener;
    return train(run, listener, false, out).validation->loss;
  }
  [[nodiscard]] LearnedSettings settings() const {
    LearnedSettings settings;
    settings.run = in("out");
    settings.out = in("learned");
    settings.threads = {1};
    return settings;
  }
  [[nodiscard]] std::string refusal_of(const LearnedSettings& settings) const {
    try {
      (void)learn_formats(settings);
    } catch (const Error& error) {
      EXPECT_EQ(std::string_view(error.what()).find('\n'), std::string_view::npos);
      return error.what();
    }
    return "accepted";
  }
  /// Of the model that was written, on the run's validation text, as `eval` finds it.
  [[nodiscard]] double loss_of_written(const std::string& recipe) const {
    const std::string folder = join_path(in("learned"), "model");
    const ModelConfig sizes = io::read_hf_config(folder);
    ng::Run run(make_backend("cpu", {1}), 1);
    Model model(run, sizes, Recipe::load(recipe), RecomputePolicy::none);
    io::read_hf_weights(folder, sizes, [&](size_t index, int64_t row, std::span<const float> v) {
      model.write_row(run, index, row, v);
    });
    const RunConfig file = RunConfig::load(in("out/run.toml"));
    const auto tokenizer = open_run_tokenizer(file);
    return evaluate(run, model, open_run_corpus(file, *tokenizer), 8, sizes.context).loss;
  }
};

std::string format_of(const LearnedReport& report, const std::string& layer) {
  for (const LearnedRow& row : report.layers)
    if (row.layer == layer) return row.format;
  return "no such layer";
}

const LearnedLoss& loss_named(const LearnedReport& report, const std::string& cast) {
  for (const LearnedLoss& loss : report.losses)
    if (loss.cast == cast) return loss;
  ADD_FAILURE() << cast;
  return report.losses.front();
}

TEST_F(Learned, LayersGetTheFormatsOfTheirBitWidths) {
  train_well(noisy());
  const LearnedReport report = learn_formats(settings()).report;
  EXPECT_EQ(report.step, 6);
  ASSERT_EQ(report.layers.size(), 14u);
  for (const char* block : {"blocks.0.", "blocks.1."}) {
    EXPECT_EQ(format_of(report, std::string(block) + "mlp.up"), "mxfp6_e3m2");
    EXPECT_EQ(format_of(report, std::string(block) + "mlp.gate"), "mxfp8_e4m3");
    EXPECT_EQ(format_of(report, std::string(block) + "mlp.down"), "fp16");
    EXPECT_EQ(format_of(report, std::string(block) + "attn.out"), "fp32");
    EXPECT_EQ(format_of(report, std::string(block) + "attn.q"), "bf16");
  }
  for (const LearnedRow& row : report.layers) {  // E4M3 has four fewer bits of mantissa, E3M2 five
    const double kept = row.format == "mxfp8_e4m3" ? 1.0 / 16 : 1.0 / 32;
    if (row.format.starts_with("mx"))
      EXPECT_NEAR(row.narrowed, 1 - kept, 0.05) << row.layer;
    else
      EXPECT_EQ(row.narrowed, 0) << row.layer;
  }
  EXPECT_EQ(report.losses[0].cast, "uncast");
  EXPECT_EQ(report.bytes_per_parameter(report.losses[0]), 4);
  EXPECT_EQ(report.bytes_per_parameter_of_model(report.losses[0]), 4);
  const LearnedLoss& cast = loss_named(report, "by layer");
  EXPECT_LT(report.bytes_per_parameter(cast), 4);
  EXPECT_LT(report.bytes_per_parameter(cast), report.bytes_per_parameter_of_model(cast));
  EXPECT_NE(cast.evaluation.loss, report.losses[0].evaluation.loss);
}

TEST_F(Learned, CastValuesLieOnTheirGridsAndOthersStay) {
  train_well(noisy());
  const LearnedRun run = read_learned_run(in("out"), std::nullopt, {1});
  const LearnedResult result = learn_formats(settings());
  HostWeights others = result.weights;
  for (const LearnedLayer& layer : run.layers) {
    const std::vector<float>& values = result.weights[layer.parameter];
    others[layer.parameter] = run.weights[layer.parameter];
    const Operand& cast = format_for_bits(layer.most_bits()).cast;
    if (cast.is_fp32()) {
      EXPECT_EQ(values, run.weights[layer.parameter]) << layer.name;
      continue;
    }
    EXPECT_NE(values, run.weights[layer.parameter]) << layer.name;
    const Rows<const float> matrix{values.data(), layer.grid.rows, layer.grid.cols,
                                   layer.grid.cols};
    EXPECT_EQ(dequantize(quantize(matrix, cast, {}, {1}), {1}), values) << layer.name;
  }
  EXPECT_EQ(others, run.weights);
}

// The written values are what the recipe stores, so that storing them changes nothing; GEMMs read
// either in BF16.
TEST_F(Learned, RecipeAndModelThatAreWrittenHaveTheLossThatIsSaid) {
  train_well(noisy());
  const LearnedResult result = learn_formats(settings());
  write_learned(result);
  const double said = loss_named(result.report, "by layer").evaluation.loss;
  EXPECT_EQ(loss_of_written(learned_recipe_path(in("learned"))), said);
  EXPECT_EQ(loss_of_written("bf16"), said);
  EXPECT_TRUE(Recipe::load(learned_recipe_path(in("learned"))).warnings().empty());
  const Json json = Json::parse(read_file(in("learned/learned.json"), kMaxFile));
  EXPECT_EQ(json["losses"][1]["loss"], said);
  const auto noise = std::find_if(json["matches"].begin(), json["matches"].end(),
                                  [](const Json& match) { return match["key"] == "weight_noise"; });
  ASSERT_NE(noise, json["matches"].end());
  EXPECT_EQ((*noise)["matched"].size(), json["layers"].size());
  write_learned(result);  // over what it wrote itself
}

TEST_F(Learned, ModelByBlocksHasItsLossToo) {
  train_well(noisy());
  LearnedSettings by_block = settings();
  by_block.by_block = true;
  const LearnedResult result = learn_formats(by_block);
  write_learned(result);
  EXPECT_EQ(loss_of_written("bf16"), loss_named(result.report, "by block").evaluation.loss);
}

TEST_F(Learned, TrainsByItsRecipe) {
  train_well(noisy());
  write_learned(learn_formats(settings()));
  Listener listener;
  RunConfig again = noisy();
  again.set_recipe(learned_recipe_path(in("learned")));
  EXPECT_EQ(train(again, listener, false, "again").steps, 6);
}

// Nothing is cast, so nothing changes.
TEST_F(Learned, In32BitsTheLossIsThatOfTheUncastModel) {
  train_well(noisy());
  LearnedSettings wide = settings();
  wide.least_bits = 32;
  const LearnedResult result = learn_formats(wide);
  const double uncast = result.report.losses[0].evaluation.loss;
  for (const LearnedLoss& loss : result.report.losses)
    EXPECT_EQ(loss.evaluation.loss, uncast) << loss.cast;
  EXPECT_EQ(result.weights, read_learned_run(in("out"), std::nullopt, {1}).weights);
}

TEST_F(Learned, RivalsAreCastToTheSameFormats) {
  train_well(noisy());
  train_well(noisy("inherit = 'bf16'"), "plain");
  (void)recipe_file(kNoiseOfManyWidths);  // both runs name the same file
  LearnedSettings rivals = settings();
  rivals.against = {in("out")};  // itself: the same weights, the same losses
  const LearnedReport report = learn_formats(rivals).report;
  const size_t first = report.losses.size() - 3;
  for (size_t i = 0; i < 3; ++i) {  // uncast, by layer, by block
    EXPECT_EQ(report.losses[first + i].cast, report.losses[i].cast);
    EXPECT_EQ(report.losses[first + i].evaluation.loss, report.losses[i].evaluation.loss);
    EXPECT_EQ(report.losses[first + i].bytes, report.losses[i].bytes);
  }
  rivals.against = {in("plain")};
  EXPECT_NE(refusal_of(rivals).find("has changed since step"), std::string::npos)
      << refusal_of(rivals);
}

// With what its own noise has learned, and its own weights.
TEST_F(Learned, RivalsAreEvaluatedAsTheyWereTrained) {
  (void)recipe_file(kNoiseOfManyWidths);
  train_well(noisy());
  for (const char* rival : {"gaussws-down", "nipq", "fqt"}) {
    const double loss =
        train_well(config({fmt::format("recipe={}", rival), "model.layers=2", "model.width=40",
                           "model.head_dim=20", "model.ffn=70", "train.keep_checkpoints=9"}),
                   rival);
    LearnedSettings rivals = settings();
    rivals.against = {in(rival)};
    const LearnedReport report = learn_formats(rivals).report;
    const size_t first = report.losses.size() - 3;
    EXPECT_EQ(report.losses[first].evaluation.loss, loss) << rival;
    for (size_t i = 0; i < 3; ++i)
      EXPECT_NE(report.losses[first + i].evaluation.loss, report.losses[i].evaluation.loss);
  }
}

TEST_F(Learned, RefusesWhatIsNoRunWithNoise) {
  const auto refuses = [&](const LearnedSettings& of, std::initializer_list<const char*> words) {
    const std::string line = refusal_of(of);
    for (const char* word : words) EXPECT_NE(line.find(word), std::string::npos) << line << word;
    EXPECT_FALSE(is_folder(in("learned")));
  };
  refuses(settings(), {"out", "no such folder"});
  make_folders(in("out"));
  refuses(settings(), {"out", "holds no run.toml"});
  train_well(noisy());
  LearnedSettings other = settings();
  other.step = 3;
  refuses(other, {"--step", "no checkpoint of step 3", "one of 6, 4, 2"});
  other = settings();
  other.data = in("none.txt");
  refuses(other, {"none.txt"});
  train_well(config({"recipe=bf16"}), "small");
  other = settings();
  other.against = {in("small")};
  refuses(other, {"small: head_dim: 6, but", in("out").c_str()});
  other = settings();
  other.run = in("small");
  refuses(other, {"small", "weight_noise", "recipe bf16 has none"});
  const std::string state = checkpoint(6) + "/state.safetensors";
  write_file_atomically(state, read_file(state, kMaxFile).substr(0, 1000));
  refuses(settings(), {"state.safetensors"});
  remove_all(in("out/checkpoints"));
  refuses(settings(), {"checkpoints", "holds no checkpoint"});
}

TEST_F(Learned, ReplacesNothingOfOthers) {
  train_well(noisy());
  const auto refuses = [&](const std::string& out, const char* word) {
    LearnedSettings to = settings();
    to.out = out;
    const auto before = contents(folder_);
    EXPECT_NE(refusal_of(to).find(word), std::string::npos) << out << refusal_of(to);
    EXPECT_EQ(contents(folder_), before);
  };
  refuses(in("out"), "checkpoints");
  refuses(in("out/model"), "config.json");
  refuses(in("text.txt"), "is a file");
  make_folders(in("mine"));
  write_file_atomically(in("mine/recipe.toml"), "inherit = 'bf16'\n");
  refuses(in("mine"), "recipe.toml");
}

constexpr BlockGrid kSixBlocks{.rows = 40, .cols = 70, .height = 32, .width = 32};

TEST(LearnedLayers, BitWidthsThatAreNoNumbersAreNamed) {
  const LearnedLayer layer{
      .name = "blocks.1.mlp.up", .grid = kSixBlocks, .bits = {4, 4, 4, 4, std::nanf(""), 4}};
  try {
    require_finite_bits(layer, "checkpoint");
    FAIL() << "accepted";
  } catch (const Error& error) {
    EXPECT_EQ(error.parts().key, "blocks.1.mlp.up.b_i");
    EXPECT_EQ(error.parts().problem, "b_t of block (1, 1) is nan");
  }
}

LearnedLayer layer_of_six_blocks() {
  return {.name = "blocks.0.mlp.up", .grid = kSixBlocks, .bits = {3.5f, 4.5f, 6, 10, 14, 4}};
}

std::vector<float> some_weights(int64_t count) {
  std::vector<float> weights;
  for (int64_t i = 0; i < count; ++i)
    weights.push_back(0.03f * std::sin(0.7f * static_cast<float>(i * i % 977)));
  return weights;
}

TEST(LearnedLayers, BlocksAreRoundedEachInItsFormat) {
  const LearnedLayer layer = layer_of_six_blocks();
  const std::vector<float> weight = some_weights(layer.size());
  const std::vector<float> cast = cast_by_block(layer, weight, 0);
  EXPECT_EQ(cast_by_block(layer, cast, 0), cast);
  const int mantissa_bits[] = {2, 3, 7, 10, 23, 2};
  std::vector<float> amax(6), error(6);
  for (int64_t i = 0; i < layer.size(); ++i) {
    const auto at = static_cast<size_t>(i);
    const auto b = static_cast<size_t>(i / 70 / 32 * 3 + i % 70 / 32);
    amax[b] = std::max(amax[b], std::fabs(weight[at]));
    error[b] = std::max(error[b], std::fabs(cast[at] - weight[at]));
  }
  for (size_t b = 0; b < 6; ++b) {
    // Half a step of the binade of the largest magnitude, which none exceeds: nothing saturates.
    EXPECT_LE(error[b], std::ldexp(amax[b], -mantissa_bits[b] - 1)) << b;
    EXPECT_EQ(error[b] > 0, b != 4) << b;  // which is FP32
  }
}

TEST(LearnedLayers, BytesOfBlocksAreElementsScaleAndFormat) {
  const LearnedLayer layer = layer_of_six_blocks();
  // Blocks are 32 or 8 down and 32, 32 or 6 across.
  const double bytes =
      (32 * 32 * 6 + 32 * 32 * 8 + 32 * 6 * 16 + 8 * 32 * 16 + 8 * 32 * 32 + 8 * 6 * 6) / 8.0 +
      6 * 2;
  EXPECT_EQ(stored_bytes_by_block(layer, 0), bytes);
  // 40 rows of 70 elements of six bits, with three scales each.
  EXPECT_DOUBLE_EQ(stored_bytes(layer, learned_formats().front().cast), 40 * (70 * 6 / 8.0 + 3));
}

TEST(LearnedLayers, UniformFormatTakesNoMoreBytes) {
  const std::vector<LearnedLayer> layers = {layer_of_six_blocks()};
  const auto bytes = [&](size_t format) {
    return stored_bytes(layers[0], learned_formats()[format].cast);
  };
  EXPECT_EQ(uniform_cast(layers, bytes(0)).name, "mxfp6_e3m2");
  EXPECT_EQ(uniform_cast(layers, bytes(0) - 1).name, "mxfp4");
  EXPECT_EQ(uniform_cast(layers, bytes(1) - 1).name, "mxfp6_e3m2");
  EXPECT_EQ(uniform_cast(layers, bytes(1)).name, "mxfp8_e4m3");
  EXPECT_EQ(uniform_cast(layers, 1e9).name, "fp32");
}

}  // namespace
}  // namespace ng
