// Logits, loss, every gradient, AdamW steps and greedy text of the reference models in
// tests/golden/models against PyTorch's, within the tolerances of tests/golden/README.md, on every
// backend. Prints the worst deviation of each kind as a share of its tolerance.
#include <gtest/gtest.h>
#include <unistd.h>

#include <cmath>
#include <filesystem>
#include <map>
#include <set>

#include "infer/generator.h"
#include "io/hf/folder.h"
#include "io/safetensors.h"
#include "run/backends.h"
#include "run/transfer.h"
#include "tools/trace.h"

namespace ng {
namespace {

struct GoldenCase {
  std::string model, backend;
};
void PrintTo(const GoldenCase& c, std::ostream* out) { *out << c.model << " on " << c.backend; }

std::string folder_of(std::string_view model) {
  return fmt::format("{}/tests/golden/models/{}", NG_SOURCE_DIR, model);
}

// The model of a folder in FP32 on a backend.
struct Loaded {
  Recipe recipe = Recipe::parse("name = \"fp32\"", "test");
  ng::Run run;
  Model model;

  explicit Loaded(const GoldenCase& c)
      : run(make_backend(c.backend, Threads{2}), 1),
        model(run, io::read_hf_config(folder_of(c.model)), recipe, RecomputePolicy::none) {
    io::read_hf_weights(folder_of(c.model), model.config(),
                        [&](size_t index, int64_t row, std::span<const float> values) {
                          model.write_row(run, index, row, values);
                        });
  }
};

/// The worst deviation of each kind as a share of its tolerance.
class Worst {
 public:
  void note(const std::string& kind, double deviation, double tolerance, const std::string& where) {
    const double share = deviation / tolerance;
    Entry& entry = worst_[kind];
    if (!(share <= entry.share)) {  // NaN counts as worst
      entry.share = share;
      entry.tolerance = tolerance;
      entry.where = where;
    }
    ++entry.compared;
  }
  void expect_within_tolerance() const {
    for (const auto& [kind, e] : worst_) {
      EXPECT_LE(e.share, 1.0) << kind << " at " << e.where << ", tolerance " << e.tolerance;
      fmt::print("  {:<16} worst {:.4f} of the tolerance ({} compared)\n", kind, e.share,
                 e.compared);
    }
  }
  [[nodiscard]] bool has(const std::string& kind) const { return worst_.contains(kind); }

 private:
  struct Entry {
    double share = -1, tolerance = 0;
    std::string where;
    int64_t compared = 0;
  };
  std::map<std::string, Entry> worst_;
};

class Golden : public ::testing::TestWithParam<GoldenCase> {
 protected:
  Golden()
      : reference_path_(folder_of(GetParam().model) + "/reference.safetensors"),
        reference_(reference_path_),
        loaded_(GetParam()) {}

  // Tolerance of every element of a traced tensor; 0: not compared.
  [[nodiscard]] std::vector<double> tolerances(const std::string& name, const std::string& kind,
                                               const std::vector<float>& wanted) const {
    std::vector<double> all(wanted.size());
    if (kind == "logits") all.assign(all.size(), 1e-4);
    if (kind == "loss" || kind == "train.loss") all.assign(all.size(), 1e-5);
    if (kind == "train.grad_norm")
      for (size_t i = 0; i < all.size(); ++i) all[i] = 1e-4 * wanted[i];
    if (kind == "gradients") {
      float largest = 0;
      for (const float x : wanted) largest = std::max(largest, std::fabs(x));
      all.assign(all.size(), 1e-5 * largest + 1e-8);
    }
    if (kind == "step1" || kind == "step3") {
      const auto ok = io::to_integers(reference_.at("step3_ok." + name.substr(6)));
      for (size_t i = 0; i < all.size(); ++i) all[i] = ok[i] != 0 ? 2e-5 : 0;
    }
    return all;
  }

  // A traced tensor against one of the file; <name>_f64 has the tolerance of <name>.
  void compare(const io::SafetensorsEntry& traced, const std::string& kind,
               const io::SafetensorsEntry& wanted, Worst& worst) const {
    ASSERT_EQ(traced.shape, wanted.shape) << wanted.name;
    const std::vector<float> have = io::to_floats(traced), want = io::to_floats(wanted);
    const std::vector<double> tolerance = tolerances(traced.name, kind, want);
    for (size_t i = 0; i < have.size(); ++i)
      if (tolerance[i] > 0)
        worst.note(kind, std::fabs(double{have[i]} - want[i]), tolerance[i],
                   fmt::format("{}[{}]", wanted.name, i));
  }

  std::string reference_path_;
  io::Safetensors reference_;
  Loaded loaded_;
};

// What a tensor of the file is compared as; empty: it is an input, or the greedy text.
std::string kind_of(const std::string& name) {
  if (name.starts_with("grad.")) return "gradients";
  if (name.starts_with("step1.") || name.starts_with("step3.")) return name.substr(0, 5);
  for (const char* kind : {"logits", "loss", "train.loss", "train.grad_norm"})
    if (name == kind || name == kind + std::string("_f64")) return kind;
  const bool other =
      name == "tokens" || name.starts_with("greedy.") || name.starts_with("step3_ok.");
  EXPECT_TRUE(other) << name << " is not compared";
  return "";
}

TEST_P(Golden, LogitsLossGradientsAndThreeStepsAreThoseOfPyTorch) {
  const std::string out =
      std::filesystem::temp_directory_path() / fmt::format("ng-golden-{}.safetensors", ::getpid());
  write_trace(loaded_.run, loaded_.model, loaded_.recipe, reference_path_, out, {});
  const io::Safetensors traced(out);
  std::filesystem::remove(out);
  Worst worst;
  for (const io::SafetensorsEntry& wanted : reference_.entries()) {
    const std::string kind = kind_of(wanted.name);
    if (kind.empty()) continue;
    const bool exact = wanted.name.ends_with("_f64");
    compare(traced.at(exact ? kind : wanted.name), kind, wanted, worst);
  }
  fmt::print("{} on {}\n", GetParam().model, GetParam().backend);
  for (const char* kind :
       {"logits", "loss", "gradients", "step1", "step3", "train.loss", "train.grad_norm"})
    EXPECT_TRUE(worst.has(kind)) << kind;
  worst.expect_within_tolerance();
  for (const std::string step : {"step1.", "step3."})  // every parameter
    for (const Parameter& parameter : loaded_.model.parameters())
      EXPECT_NE(reference_.find(step + parameter.spec.hf_name), nullptr) << parameter.spec.name;
}

TEST_P(Golden, GreedyTextIsThatOfTransformers) {
  const io::SafetensorsEntry& entry = reference_.at("greedy.tokens");
  const std::vector<int64_t> tokens = io::to_integers(entry);
  ASSERT_FALSE(tokens.empty());
  const int64_t prompt_length = reference_.at("greedy.prompt").shape[1];
  const int64_t length = entry.shape[1];
  Generator generator(loaded_.run, loaded_.model);
  for (int64_t row = 0; row < entry.shape[0]; ++row) {
    const auto begin = tokens.begin() + row * length;
    const std::vector<int32_t> prompt(begin, begin + prompt_length);
    const std::vector<int32_t> wanted(begin + prompt_length, begin + length);
    std::vector<int32_t> have;
    generator.generate(prompt, length - prompt_length, {}, [&](int32_t token) {
      have.push_back(token);
      return true;
    });
    EXPECT_EQ(have, wanted) << "prompt " << row;
  }
}

TEST_P(Golden, GradientsAreShownBeforeTheUpdateAndOnlyWhenAskedFor) {
  Trainer trainer(loaded_.run, loaded_.model, loaded_.recipe,
                  {.sequences = 1, .length = 4, .optimizer = {}});
  const BatchSpans tokens = trainer.train_tokens(0);
  std::fill(tokens.inputs.begin(), tokens.inputs.end(), 1);
  std::fill(tokens.targets.begin(), tokens.targets.end(), 2);
  int calls = 0;
  double squares = 0;
  trainer.set_gradient_observer([&] {
    ++calls;
    for (const Parameter& p : loaded_.model.parameters())
      for (const float g : download(loaded_.run.backend(), p.grad.view())) squares += double{g} * g;
  });
  const StepReport first = trainer.step(0, 1e-3f);
  EXPECT_EQ(calls, 1);
  EXPECT_NEAR(std::sqrt(squares), first.grad_norm, 1e-9 * first.grad_norm) << "before clipping";
  trainer.set_gradient_observer({});
  EXPECT_FALSE(trainer.step(1, 1e-3f).skipped);
  EXPECT_EQ(calls, 1);
}

// Every folder of tests/golden/models on every backend. They are FP32: an emulated card's matrix
// units have nothing of them.
std::vector<GoldenCase> all_cases() {
  std::set<std::string> models;
  for (const auto& item : std::filesystem::directory_iterator(folder_of("")))
    if (item.is_directory()) models.insert(item.path().filename());
  std::vector<GoldenCase> cases;
  for (const std::string& model : models)
    for (const std::string_view backend : backend_names())
      if (!backend.starts_with("cuda-emulated-units"))
        cases.push_back({model, std::string(backend)});
  return cases;
}

std::string case_name(const ::testing::TestParamInfo<GoldenCase>& info) {
  std::string name = info.param.model + "_" + info.param.backend;
  for (char& c : name)
    if (std::isalnum(static_cast<unsigned char>(c)) == 0) c = '_';
  return name;
}

INSTANTIATE_TEST_SUITE_P(Models, Golden, ::testing::ValuesIn(all_cases()), case_name);

TEST(GoldenModels, AreThere) { EXPECT_FALSE(all_cases().empty()); }

}  // namespace
}  // namespace ng
