// `matmul`: a product of tensors of files and its errors. `linear`: those of a layer.
#include <cmath>
#include <map>

#include "base/json.h"
#include "io/safetensors.h"
#include "program.h"

namespace ng::e2e {
namespace {

constexpr int64_t kM = 5, kN = 7, kK = 96;

class Matmul : public Program {
 protected:
  Matmul() {
    std::vector<float> a(kM * kK), b(kN * kK), turned(b.size());
    for (size_t i = 0; i < a.size(); ++i) a[i] = std::sin(0.7f * float(i * i % 977));
    for (size_t i = 0; i < b.size(); ++i) b[i] = std::cos(1.3f * float(i * i % 883));
    for (int64_t n = 0; n < kN; ++n)
      for (int64_t k = 0; k < kK; ++k) turned[size_t(k * kN + n)] = b[size_t(n * kK + k)];
    const std::vector<int64_t> ints(4);
    io::write_safetensors(path("f"), {{"a", "F32", {kM, kK}, a.data()},
                                      {"b", "F32", {kN, kK}, b.data()},
                                      {"turned", "F32", {kK, kN}, turned.data()},
                                      {"ints", "I64", {2, 2}, ints.data()},
                                      {"none", "F32", {0, kK}, a.data()}});
    for (int64_t m = 0; m < kM; ++m)
      for (int64_t n = 0; n < kN; ++n) {
        double sum = 0;
        for (int64_t k = 0; k < kK; ++k)
          sum += double(a[size_t(m * kK + k)]) * double(b[size_t(n * kK + k)]);
        exact_.push_back(sum);
      }
  }
  [[nodiscard]] Json product(std::vector<std::string> flags, const char* b = "f:b") const {
    flags.insert(flags.begin(), {"matmul", "f:a", b, "--json", "--out", "c"});
    return Json::parse(run_well(flags));
  }
  [[nodiscard]] std::vector<float> c() const {
    const io::Safetensors file(path("c"));
    EXPECT_EQ(file.at("C").shape, (std::vector<int64_t>{kM, kN}));
    return io::to_floats(file.at("C"));
  }
  // √(Σ(C - exact)² / Σ exact²)
  [[nodiscard]] double relative_error() const {
    double error = 0, norm = 0;
    const std::vector<float> have = c();
    for (size_t i = 0; i < exact_.size(); ++i) {
      error += std::pow(double(have[i]) - exact_[i], 2);
      norm += exact_[i] * exact_[i];
    }
    return std::sqrt(error / norm);
  }

  std::vector<double> exact_;
};

double error_of(const Json& json, const char* which) {
  return json.at(which).at("relative_error").get<double>();
}

TEST_F(Matmul, Fp32HasOnlyTheErrorOfItsSum) {
  const Json json = product({});
  EXPECT_EQ(json.at("k"), kK);
  EXPECT_EQ(error_of(json, "quantization"), 0);
  EXPECT_EQ(json.at("quantization").at("sqnr_db"), "inf");
  EXPECT_LT(error_of(json, "accumulation"), 1e-6);
  EXPECT_NEAR(error_of(json, "total"), relative_error(), 1e-12);
}

TEST_F(Matmul, TablesChangeFp32) {
  const Json json = product({"--a", "{}", "--b", "{prescale = 1.0}"});
  EXPECT_EQ(json.at("a").at("format"), "fp32");
  EXPECT_EQ(error_of(json, "quantization"), 0);
}

TEST_F(Matmul, ErrorsOfRoundingAndOfAddingAreToldApart) {
  for (const char* format : {"mxfp4", "nvfp4", "fp8_e4m3", "int8", "mxfp6_e2m3"}) {
    const Json json = product({"--a", format, "--b", format});
    EXPECT_NEAR(error_of(json, "total"), relative_error(), 1e-9) << format;
    EXPECT_GT(error_of(json, "quantization"), 1e-3) << format;
    EXPECT_LT(error_of(json, "accumulation"), 1e-6) << format;
    EXPECT_NEAR(error_of(json, "total"), error_of(json, "quantization"), 1e-5) << format;
  }
}

TEST_F(Matmul, TheSameNumbersHoweverBIsStored) {
  for (const char* format : {"fp32", "mxfp4", "int8"}) {
    (void)product({"--a", format, "--b", format});
    const std::vector<float> straight = c();
    (void)product({"--a", format, "--b", format, "--transpose-b"}, "f:turned");
    EXPECT_EQ(c(), straight) << format;
  }
}

TEST_F(Matmul, TransformsAndPrescalesAreUndone) {
  for (const char* g : {"16", "32", "64", "128"})
    EXPECT_LT(error_of(product({"--hadamard", g}), "quantization"), 1e-6) << g;
  const Json json = product({"--a", "{format = \"mxfp4\", prescale = 0.75}", "--b", "mxfp4",
                             "--rounding", "stochastic", "--hadamard", "32"});
  EXPECT_LT(error_of(json, "quantization"), 0.6);
  EXPECT_LT(error_of(json, "accumulation"), 1e-5);
}

TEST_F(Matmul, SumsInTheOrderThatIsAskedFor) {
  (void)product({"--a", "bf16", "--b", "bf16"});
  const std::vector<float> chain = c();
  const Json tiles = product({"--a", "bf16", "--b", "bf16", "--sum", "tile32"});
  EXPECT_EQ(tiles.at("sum"), "tile32");
  EXPECT_LT(error_of(tiles, "accumulation"), 1e-6);
  EXPECT_NE(c(), chain);
  expect_refused({"matmul", "f:a", "f:b", "--sum", "tile32"}, 1, {"--sum", "tile32", "fp32"});
}

TEST_F(Matmul, SeedsChooseDraws) {
  const auto values = [&](const char* seed) {
    (void)product({"--a", "mxfp4", "--rounding", "stochastic", "--seed", seed});
    return c();
  };
  const std::vector<float> one = values("1");
  EXPECT_EQ(values("1"), one);
  EXPECT_NE(values("2"), one);
}

TEST_F(Matmul, TakesTheFormatsOfCast) {
  for (const char* format : {"e3m4", "e4m3fnuz", "bfloat16", "e5m4"})
    EXPECT_LT(error_of(product({"--a", format, "--b", format}), "total"), 0.2) << format;
  expect_refused({"matmul", "f:a", "f:b", "--a", "uint8"}, 1, {"--a", "uint8", "signed"});
}

TEST_F(Matmul, KnowsNothingOfAProductOfNaN) {
  const std::vector<float> nan(4, std::nanf(""));
  io::write_safetensors(path("n"), {{"x", "F32", {2, 2}, nan.data()}});
  const Result result = run({"matmul", "n:x", "n:x", "--json"});
  EXPECT_EQ(Json::parse(result.out).at("total").at("max_abs"), "nan") << result.out;
  const float one_nan[] = {1, 2, std::nanf(""), 4};
  io::write_safetensors(path("n"), {{"x", "F32", {2, 2}, one_nan}});
  EXPECT_EQ(Json::parse(run({"matmul", "n:x", "n:x", "--json"}).out).at("finite_outputs"), 1);
  const Result text = run({"matmul", "n:x", "n:x"});
  EXPECT_NE(text.err.find("3 of 4 outputs are not finite"), std::string::npos) << text.err;
}

TEST_F(Matmul, PrintsATable) {
  const std::string text = run_well({"matmul", "f:a", "f:b", "--a", "mxfp4"});
  for (const char* part : {"quantization", "accumulation", "both", "K = 96", "mxfp4"})
    EXPECT_NE(text.find(part), std::string::npos) << part;
}

TEST_F(Matmul, RefusesInOneLine) {
  expect_refused({"matmul", "f:a", "f:none"}, 1, {"f", "none", "no values"});
  expect_refused({"matmul", "f:a", "f:ints"}, 1, {"ints", "I64"});
  expect_refused({"matmul", "f:a", "f:missing"}, 1, {"missing"});
  expect_refused({"matmul", "f:a", "g:b"}, 1, {"g:b"});
  expect_refused({"matmul", "f", "f:b"}, 1, {"f", "NAME"});
  expect_refused({"matmul", "f:a", "f:turned"}, 1, {"turned", "(96, 7)", "--transpose-b"});
  expect_refused({"matmul", "f:a", "f:b", "--a", "mxfp5"}, 1, {"--a", "mxfp5", "mxfp4"});
  expect_refused({"matmul", "f:a", "f:b", "--b", "{format = \"mxfp4\", block = [1, 3]}"}, 1,
                 {"--b", "block", "[1, 3]"});
  expect_refused({"matmul", "f:a", "f:b", "--a", "{}\n[more]"}, 1, {"--a", "behind the table"});
  expect_refused({"matmul", "f:a", "f:b", "--hadamard", "3"}, 2, {"--hadamard"});
  const std::string before = text_of(path("f"));
  fs::create_symlink(path("f"), path("link"));
  expect_refused({"matmul", "f:a", "f:b", "--out", "link"}, 1, {"link", "the same file as f"});
  EXPECT_EQ(text_of(path("f")), before);
}

// What BF16 holds has no error, and zeros have neither signal nor error.
TEST_F(Matmul, OfALayerNamesFiguresThatAreNoNumbers) {
  const std::vector<float> weight(16, 0.5f), input(16);
  io::write_safetensors(path("l"), {{"weight", "F32", {4, 4}, weight.data()},
                                    {"input", "F32", {4, 4}, input.data()}});
  const Json all = Json::parse(run_well({"linear", "l", "o", "--recipe", "bf16", "--json"}));
  std::map<std::string, Json> sqnr;
  for (const Json& tensor : all.at("tensors")) sqnr[tensor.at("name")] = tensor.at("sqnr_db");
  EXPECT_EQ(sqnr, (std::map<std::string, Json>{
                      {"output", "nan"}, {"fprop.input", "nan"}, {"fprop.weight", "inf"}}));
  const std::string text = run_well({"linear", "l", "o", "--recipe", "bf16"});
  EXPECT_NE(text.find(" exact "), std::string::npos) << text;
  EXPECT_NE(text.find(" NaN "), std::string::npos) << text;
}

}  // namespace
}  // namespace ng::e2e
