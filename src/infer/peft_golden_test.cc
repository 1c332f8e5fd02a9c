// Folders that PEFT wrote, of every feature, over models of tests/golden: the weights that they are
// and what these say, against PEFT. Their base is on a hub as far as they know.
#include <gtest/gtest.h>

#include <cmath>

#include "base/error.h"
#include "base/json.h"
#include "infer/logits.h"
#include "infer/open_model.h"
#include "io/hf/peft_folder.h"
#include "io/model_files.h"
#include "support/golden_file.h"

namespace ng {
namespace {

const std::string kGolden = std::string(NG_SOURCE_DIR) + "/tests/golden/";

class PeftGolden : public ::testing::TestWithParam<std::string> {
 protected:
  PeftGolden()
      : folder_(kGolden + "lora/" + GetParam()),
        named_base_(io::peft_base(folder_)),
        name_(folder_, kGolden + "models/" + named_base_.substr(named_base_.find('/') + 1)),
        reference_("lora/" + GetParam() + "/reference") {}

  std::string folder_, named_base_;
  io::ModelName name_;
  GoldenFile reference_;
};

// PEFT sums B·A of at most 4 terms and norms of up to 64 values in FP32, each sum off by 2^-24 of
// the magnitudes added: with the products and the quotient fewer than 64 + 16 roundings.
TEST_P(PeftGolden, WeightsAreThoseOfPeft) {
  const ModelConfig config = io::read_model_config(name_);
  const std::vector<ParameterSpec> table = parameter_table(config);
  size_t compared = 0;
  std::vector<float> want;
  double largest = 0;
  io::copy_parameters(config, io::open_model_weights(name_, config),
                      [&](size_t index, int64_t row, std::span<const float> values) {
                        const ParameterSpec& spec = table[index];
                        const std::string key = "merged." + spec.hf_name;
                        if (!reference_.has(key)) return;
                        if (row == 0) {
                          want = reference_.floats(key);
                          for (const float x : want)
                            largest = std::max(largest, std::fabs(double{x}));
                        }
                        for (int64_t c = 0; c < spec.cols; ++c, ++compared) {
                          const int64_t at =
                              spec.hf_transposed ? c * spec.rows + row : row * spec.cols + c;
                          ASSERT_NEAR(values[static_cast<size_t>(c)], want[static_cast<size_t>(at)],
                                      80 * 0x1p-24 * largest)
                              << key << " " << row << " " << c;
                        }
                      });
  size_t elements = 0;
  for (const io::SafetensorsEntry& entry : reference_.entries())
    if (entry.name.starts_with("merged.")) elements += static_cast<size_t>(entry.elements());
  EXPECT_EQ(compared, elements);
}

TEST_P(PeftGolden, LogitsAreThoseOfPeft) {
  const OpenModel open = open_model(name_, Recipe::load("fp32"), {.threads = {1}});
  LogitsReader reader(*open.run, *open.model);
  const std::vector<int64_t> tokens = reference_.integers("tokens");
  const std::vector<int64_t>& shape = reference_.shape("logits");  // B, T, V
  const std::vector<float> want = reference_.floats("logits");
  const auto length = static_cast<size_t>(shape[1]), vocab = static_cast<size_t>(shape[2]);
  ASSERT_EQ(open.model->config().vocab, shape[2]);
  for (size_t b = 0; b < static_cast<size_t>(shape[0]); ++b) {
    const auto first = tokens.begin() + static_cast<int64_t>(b * (length + 1));
    const std::vector<int32_t> sequence(first, first + static_cast<int64_t>(length));
    const std::vector<float> have = reader.read(sequence);
    for (size_t i = 0; i < length * vocab; ++i)
      ASSERT_NEAR(have[i], want[b * length * vocab + i], 1e-4) << b << " " << i;
  }
}

TEST_P(PeftGolden, TheBaseIsNamedWhereTheHubWas) {
  try {
    (void)io::read_model_config(folder_);
    ADD_FAILURE() << "opened";
  } catch (const Error& error) {
    EXPECT_EQ(
        std::string(error.what()),
        fmt::format("{}/adapter_config.json: base_model_name_or_path: no folder \"{}\": --base "
                    "FOLDER, a whole model: no hub is asked",
                    folder_, named_base_));
  }
}

INSTANTIATE_TEST_SUITE_P(Features, PeftGolden,
                         ::testing::Values("dora", "dora_conv1d", "saved", "biases", "tables"),
                         [](const ::testing::TestParamInfo<std::string>& of) { return of.param; });

}  // namespace
}  // namespace ng
