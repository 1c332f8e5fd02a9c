// `linear_file` against independent oracles (tests/golden/linear), on every backend.
#include "tools/linear_file.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>

#include "nn/operand_role.h"
#include "support/golden_file.h"
#include "support/tensor_files.h"

namespace ng {
namespace {

class LinearFile : public TensorFiles, public testing::WithParamInterface<const char*> {
 protected:
  void SetUp() override {
    TensorFiles::SetUp();
    settings_.backend = GetParam();
    settings_.threads = {2};
  }
  io::Safetensors layer(const std::string& recipe) {
    write_taken(in("in"));
    report_ = linear_file(in("in"), in("out"), Recipe::load(recipe), settings_);
    return io::Safetensors(in("out"));
  }
  void expect_case(const GoldenFile& golden, const std::string& name, const Json& facts);
  void take_layer(int64_t tokens, int64_t inputs, int64_t outputs) {
    const auto values = [](int64_t count, double turn) {
      std::vector<float> made;
      for (int64_t i = 0; i < count; ++i)
        made.push_back(static_cast<float>(std::sin(turn * static_cast<double>(i + 1))));
      return made;
    };
    take("weight", {outputs, inputs}, values(outputs * inputs, 1.7));
    take("input", {tokens, inputs}, values(tokens * inputs, 0.7));
    take("grad", {tokens, outputs}, values(tokens * outputs, 2.3));
  }

  LinearFileSettings settings_;
  LinearFileReport report_;
};

/// Of floats the sign of a zero counts for nothing.
std::vector<int64_t> without_negative_zeros(std::vector<int64_t> codes, int64_t negative_zero) {
  std::replace(codes.begin(), codes.end(), negative_zero, int64_t{0});
  return codes;
}

/// The code of -0 of the elements that the cases have: E2M1, E4M3 and E5M2, BF16; integers none.
int64_t negative_zero(const std::vector<int64_t>& codes, const std::string& dtype) {
  if (dtype == "U16") return 0x8000;
  return *std::max_element(codes.begin(), codes.end()) < 16 ? 0x8 : 0x80;
}

/// What both files have of an operand under one name.
void expect_same(const GoldenFile& golden, const std::string& name, const io::Safetensors& made,
                 const std::string& tensor) {
  ASSERT_EQ(made.find(tensor) != nullptr, golden.has(name + tensor)) << tensor;
  if (!golden.has(name + tensor)) return;
  const io::SafetensorsEntry& entry = made.at(tensor);
  EXPECT_EQ(entry.shape, golden.shape(name + tensor)) << tensor;
  if (entry.dtype == "F32")
    EXPECT_EQ(io::to_floats(entry), golden.floats(name + tensor)) << tensor;
  else
    EXPECT_EQ(io::to_integers(entry), golden.integers(name + tensor)) << tensor;
}

void expect_operand(const GoldenFile& golden, const std::string& name, const io::Safetensors& made,
                    const std::string& role, bool is_integer) {
  SCOPED_TRACE(role);
  const std::string codes = role + ".codes";
  expect_same(golden, name + ".", made, role + ".scale");
  expect_same(golden, name + ".", made, role + ".tensor_scale");
  ASSERT_NE(made.find(role + ".values"), nullptr);
  if (golden.has(name + "." + role + ".values"))
    expect_same(golden, name + ".", made, role + ".values");
  if (is_integer) return expect_same(golden, name + ".", made, codes);
  ASSERT_EQ(made.find(codes) != nullptr, golden.has(name + "." + codes));
  if (made.find(codes) == nullptr) return;
  EXPECT_EQ(made.at(codes).shape, golden.shape(name + "." + codes));
  const std::vector<int64_t> want = golden.integers(name + "." + codes);
  const int64_t zero = negative_zero(want, made.at(codes).dtype);
  EXPECT_EQ(without_negative_zeros(io::to_integers(made.at(codes)), zero),
            without_negative_zeros(want, zero));
}

void expect_product(const GoldenFile& golden, const std::string& name,
                    const std::vector<float>& got) {
  const std::vector<float> want = golden.floats(name), bound = golden.floats(name + ".tolerance");
  ASSERT_EQ(got.size(), want.size());
  for (size_t i = 0; i < got.size(); ++i) ASSERT_NEAR(got[i], want[i], bound[i]) << i;
}

void LinearFile::expect_case(const GoldenFile& golden, const std::string& name, const Json& facts) {
  SCOPED_TRACE(name);
  for (const char* tensor : {"weight", "input", "grad", "bias"}) {
    const std::string full = name + "." + tensor;
    if (golden.has(full)) take(tensor, golden.shape(full), golden.floats(full));
  }
  settings_.layer = facts["layer"];
  settings_.blocks = facts.value("blocks", 0);
  settings_.seed = std::stoull(facts["seed"].get<std::string>());
  settings_.step = facts["step"];
  settings_.micro = facts["micro"];
  settings_.tensor_id = facts["tensor_id"];
  settings_.input_id = facts["input_id"];
  settings_.output_id = facts["output_id"];
  const std::string recipe = facts[facts.contains("toml") ? "toml" : "recipe"];
  const LinearRecipe numbers = Recipe::load(recipe).linear({"blocks.0.mlp.up", 0, 1}, 0);
  const io::Safetensors made = layer(recipe);
  for (size_t i = 0; i < kOperandRoles; ++i) {
    const auto role = static_cast<OperandRole>(i);
    expect_operand(golden, name, made, std::string(name_of(role)),
                   cast_of(numbers, role).element->kind == ElementKind::integer);
  }
  for (const char* product : {"output", "input_grad", "weight_grad"})
    expect_product(golden, name + "." + product, io::to_floats(made.at(product)));
}

TEST_P(LinearFile, MakesOperandsAndProductsOfTheOracle) {
  const GoldenFile golden("linear/today");
  EXPECT_EQ(golden.cases().size(), 13u);
  for (const auto& [name, facts] : golden.cases().items()) expect_case(golden, name, facts);
}

TEST_P(LinearFile, MakesWhatKeysOfPublishedMethodsSay) {
  const GoldenFile golden("linear/keys");
  EXPECT_EQ(golden.cases().size(), 13u);
  for (const auto& [name, facts] : golden.cases().items()) expect_case(golden, name, facts);
}

TEST_P(LinearFile, MakesWhatKeysOfProductsSay) {
  const GoldenFile golden("linear/products");
  EXPECT_EQ(golden.cases().size(), 11u);
  for (const auto& [name, facts] : golden.cases().items()) expect_case(golden, name, facts);
}

TEST_P(LinearFile, MakesWhatSecondScalesOfRegionsSay) {
  const GoldenFile golden("linear/regions");
  EXPECT_EQ(golden.cases().size(), 6u);
  for (const auto& [name, facts] : golden.cases().items()) expect_case(golden, name, facts);
}

TEST_P(LinearFile, MakesWhatElementsSay) {
  const GoldenFile golden("linear/elements");
  EXPECT_EQ(golden.cases().size(), 9u);
  for (const auto& [name, facts] : golden.cases().items()) expect_case(golden, name, facts);
}

TEST_P(LinearFile, WithoutGradThereIsTheForwardProductAlone) {
  take("weight", {1, 2}, {1, 2});
  take("input", {3, 1, 2}, {1, 0, 0, 1, 1, 1});
  take("bias", {1}, {0.5});
  const io::Safetensors made = layer("fp32");
  EXPECT_EQ(io::to_floats(made.at("output")), (std::vector<float>{1.5, 2.5, 3.5}));
  EXPECT_EQ(made.find("input_grad"), nullptr);
  EXPECT_EQ(made.find("dgrad.grad.values"), nullptr);
  EXPECT_EQ(made.find("fprop.input.codes"), nullptr);
  ASSERT_EQ(report_.figures.size(), 3u);
  EXPECT_TRUE(std::isinf(report_.figures[0].sqnr_db));
}

TEST_P(LinearFile, SaysThatABlockCountsAsTheLast) {
  const auto is_last = [&](int64_t blocks) {
    settings_.blocks = blocks;
    take_layer(16, 32, 24);
    (void)layer("nvfp4");
    return report_.is_last;
  };
  EXPECT_TRUE(is_last(0));
  EXPECT_FALSE(is_last(1));  // said
  EXPECT_FALSE(is_last(12));
}

TEST_P(LinearFile, DrawsBelongToTheirIds) {
  const auto operand = [&](const char* role) {
    take_layer(16, 32, 24);
    return io::to_integers(layer("mxfp4-sr-rht").at(role));
  };
  const auto first = operand("dgrad.grad.codes");
  settings_.micro = 1;
  EXPECT_NE(operand("dgrad.grad.codes"), first);
  settings_.micro = 0;
  settings_.output_id = 7;
  EXPECT_NE(operand("dgrad.grad.codes"), first);
  settings_.output_id.reset();
  settings_.input_id = 7;  // the input's alone
  EXPECT_EQ(operand("dgrad.grad.codes"), first);
}

TEST_P(LinearFile, RefusesWhatDoesNotFit) {
  const auto refused = [&](const std::string& recipe) {
    return error_of([&] { (void)layer(recipe); });
  };
  take("weight", {2, 3}, {1, 2, 3, 4, 5, 6});
  take("input", {1, 2}, {1, 2});
  EXPECT_EQ(refused("fp32"),
            in("in") + ": input: has shape (1, 2): (T, 3), T > 0: K, the weight's inputs");
  take("weight", {2, 3}, {1, 2, 3, 4, 5, 6});
  take("input", {1, 3}, {1, 2, 3});
  take("grad", {2, 2}, {1, 2, 3, 4});
  EXPECT_EQ(refused("fp32"),
            in("in") + ": grad: has shape (2, 2): (1, 2): a row for each of the input's");
  take_layer(2, 4, 3);
  settings_.layer = "blocks.0.norm1";
  EXPECT_EQ(refused("bf16"),
            "--layer: unknown \"blocks.0.norm1\": a linear layer of a block "
            "(blocks.0.mlp.up, blocks.3.attn.qkv), or head");
  settings_.layer = "blocks.4.mlp.up";
  settings_.blocks = 4;
  take_layer(2, 4, 3);
  EXPECT_EQ(refused("bf16"), "--blocks: 4 blocks have no blocks.4.mlp.up: 5 or more");
  EXPECT_FALSE(std::filesystem::exists(in("out")));
}

INSTANTIATE_TEST_SUITE_P(Backends, LinearFile, testing::Values("ref", "cpu"));

}  // namespace
}  // namespace ng
