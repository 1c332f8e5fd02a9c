// States, masters and scales of `update_file`: against independent oracles of narrow optimizer
// states (tests/golden/optim), and against `cast` for what is stored in blocks.
#include <gtest/gtest.h>

#include <cmath>

#include "recipe/cast_words.h"
#include "support/update_files.h"
#include "tools/cast_file.h"

namespace ng {
namespace {

using UpdateFileStates = UpdateFiles;

/// A state of a golden run: its name there and here, and its element.
struct State {
  std::string golden, name, element;
};

/// A run of AdamW with narrow states and what it is started from.
struct StateRun {
  const GoldenFile& golden;
  std::string name, shared;  ///< the case, and the one that has its gradients
  std::vector<State> states;
  size_t block = 0;  ///< values under one scale of the first moment; 0: all

  [[nodiscard]] const Json& parameters() const { return golden.cases()[name]; }
  [[nodiscard]] int64_t rows() const { return parameters()["rows"]; }
  [[nodiscard]] int64_t cols() const { return parameters()["cols"]; }
  [[nodiscard]] size_t size() const { return static_cast<size_t>(rows() * cols()); }
  [[nodiscard]] std::vector<float> scales(const State& state, size_t at) const {
    const std::vector<float> all = golden.floats(name + "." + state.golden + "_scale");
    const size_t rows_shown = golden.integers(name + ".steps").size();
    return part(all, at, all.size() / rows_shown);
  }
  [[nodiscard]] bool has_scale(const State& state) const {
    return golden.has(name + "." + state.golden + "_scale");
  }
  /// F32 values of a state after the shown step of place `at`.
  [[nodiscard]] std::vector<float> values(const State& state, size_t at) const {
    if (state.element == "fp32") return part(golden.floats(name + "." + state.golden), at, size());
    const std::vector<int64_t> codes = part(golden.integers(name + "." + state.golden), at, size());
    if (!has_scale(state)) return decoded(state.element, codes, {1});
    const bool in_blocks = block > 0 && state.golden == "m";
    return decoded(state.element, codes, scales(state, at), static_cast<size_t>(cols()),
                   in_blocks ? block : 0);
  }
  void expect(const io::Safetensors& out, int64_t step, size_t at) const {
    for (const State& state : states) {
      const std::string tensor = fmt::format("step{}.{}", step, state.name);
      SCOPED_TRACE(fmt::format("{} {} of row {}", name, tensor, at));
      EXPECT_EQ(io::to_floats(out.at(tensor)), values(state, at));
      if (state.element == "fp32") continue;
      expect_codes(out, tensor, part(golden.integers(name + "." + state.golden), at, size()),
                   state.element);
      if (has_scale(state)) expect_scales(out, tensor, scales(state, at));
    }
  }
};

class NarrowStates : public UpdateFiles {
 protected:
  /// All steps at once.
  void expect_run(const StateRun& run, const std::string& recipe) {
    set(run, 0);
    settings_.show = run.golden.integers(run.name + ".steps");
    take("weight", {run.rows(), run.cols()}, run.golden.floats(run.shared + ".w0"));
    take("grad", {run.parameters()["steps"], run.rows(), run.cols()},
         run.golden.floats(run.shared + ".grads"));
    const io::Safetensors out = update(recipe);
    for (size_t at = 1; at < settings_.show.size(); ++at) run.expect(out, settings_.show[at], at);
  }
  /// Each step from the states that are shown of the one before.
  void expect_neighbours(const StateRun& run, const std::string& recipe) {
    const std::vector<int64_t> shown = run.golden.integers(run.name + ".steps");
    const std::vector<float> grads = run.golden.floats(run.shared + ".grads");
    settings_.show = {};
    for (size_t at = 0; at + 1 < shown.size(); ++at) {
      if (shown[at + 1] != shown[at] + 1) continue;
      set(run, static_cast<uint32_t>(shown[at]));
      for (const State& state : run.states) {
        if (state.name == "weight" && run.states.size() > 3) {  // a copy of the master
          take("weight.scale", {1}, {1 / run.scales(state, at)[0]});
          continue;
        }
        const bool starts = state.name == "weight" || state.name == "master";
        take(starts ? "weight" : "state." + state.name, {run.rows(), run.cols()},
             run.values(state, at));
      }
      take("grad", {1, run.rows(), run.cols()},
           part(grads, static_cast<size_t>(shown[at]), run.size()));
      run.expect(update(recipe), 1, at + 1);
    }
  }

 private:
  void set(const StateRun& run, uint32_t step) {
    set_numbers(run.parameters());
    set_key(run.parameters(), step);
  }
};

TEST_P(NarrowStates, Fp8LmAdamW) {
  const GoldenFile golden("optim/fp8lm_adamw");
  for (const auto& [name, parameters] : golden.cases().items()) {
    const bool is_v_fp8 = parameters["moment2"] == "fp8_e4m3";
    const StateRun run{.golden = golden,
                       .name = name,
                       .shared = name,
                       .states = {{"w8", "weight", "e4m3"},
                                  {"w", "master", "fp16"},
                                  {"m", "moment1", "e4m3"},
                                  {"v", "moment2", is_v_fp8 ? "e4m3" : "fp16"}}};
    const std::string recipe =
        is_v_fp8 ? "inherit = 'fp8-lm'\noptimizer.moment2 = 'fp8_e4m3'\n" : "inherit = 'fp8-lm'\n";
    expect_run(run, recipe);
    expect_neighbours(run, recipe);
  }
}

TEST_P(NarrowStates, AdamWWithFp8States) {
  const GoldenFile golden("optim/adamw_fp8_states");
  for (const auto& [name, parameters] : golden.cases().items()) {
    const StateRun run{
        .golden = golden,
        .name = name,
        .shared = name.substr(0, name.find('.')) + ".nearest",
        .states = {{"w", "weight", "fp32"}, {"m", "moment1", "e4m3"}, {"v", "moment2", "bf16"}},
        .block = 128};
    const std::string recipe = name.ends_with("nearest")
                                   ? "inherit = 'adamw-fp8-states'\noptimizer.moment1.rounding = "
                                     "'nearest'\noptimizer.moment2.rounding = 'nearest'\n"
                                   : "inherit = 'adamw-fp8-states'\n";
    expect_run(run, recipe);
    expect_neighbours(run, recipe);
  }
}

/// Largest |got - want| over the largest |want|.
double relative_error(const std::vector<float>& got, const std::vector<double>& want) {
  double error = 0, largest = 0;
  for (size_t i = 0; i < want.size(); ++i) {
    error = std::max(error, std::fabs(got.at(i) - want[i]));
    largest = std::max(largest, std::fabs(want[i]));
  }
  return error / largest;
}

// Tolerances: golden/README.md, `plain`; of w relative to itself, which is stricter.
TEST_P(UpdateFileStates, AdamWAndSgdInFp32) {
  const GoldenFile golden("optim/plain");
  struct Plain {
    std::string name, recipe, layer;
    std::vector<int64_t> shape;
  };
  for (const Plain& plain : {Plain{"adamw", "", "blocks.0.mlp.up", {6, 9}},
                             Plain{"adamw_vector", "", "blocks.0.mlp.up.bias", {1, 11}},
                             Plain{"adamw_b_i", "", "blocks.0.mlp.up.b_i", {2, 3}},
                             Plain{"sgd", "optimizer.kind = 'sgd'", "embed", {5, 7}}}) {
    SCOPED_TRACE(plain.name);
    const Json& parameters = golden.cases()[plain.name];
    set_numbers(parameters);
    if (plain.name == "sgd") settings_.optimizer.beta1 = parameters["momentum"];
    settings_.layer = plain.layer;
    settings_.show = parameters["shown"].get<std::vector<int64_t>>();
    take("weight", plain.shape, golden.floats(plain.name + ".w0"));
    std::vector<int64_t> shape = plain.shape;
    shape.insert(shape.begin(), parameters["steps"].get<int64_t>());
    take("grad", shape, golden.floats(plain.name + ".grads"));
    const io::Safetensors out = update(plain.recipe);
    const auto size = static_cast<size_t>(plain.shape[0] * plain.shape[1]);
    const auto expect = [&](const std::string& state, const std::string& in_file, double bound) {
      for (size_t i = 0; i < settings_.show.size(); ++i) {
        const auto got = io::to_floats(out.at(fmt::format("step{}.{}", settings_.show[i], state)));
        const std::vector<double> want = golden.doubles(plain.name + "." + in_file);
        EXPECT_LT(relative_error(got, part(want, i, size)), bound) << state << " " << i;
      }
    };
    expect("weight", "w", 4e-6);
    if (plain.name == "sgd") {
      expect("momentum", "momentum", 5e-5);
      EXPECT_EQ(out.find("step1.moment1"), nullptr);
      continue;
    }
    expect("moment1", "m", 5e-5);
    expect("moment2", "v", 5e-5);
  }
}

std::vector<float> wave(size_t count, float scale) {
  std::vector<float> values(count);
  for (size_t i = 0; i < count; ++i)
    values[i] = scale * std::sin(0.37f * static_cast<float>(i * i % 1009)) *
                std::exp2(static_cast<float>(i / 32 % 7));
  return values;
}

TEST_P(UpdateFileStates, WhatIsStoredIsNamedAndShapedAsCastDoes) {
  constexpr int64_t kRows = 5, kCols = 72;
  const auto w = wave(kRows * kCols, 0.01f);
  for (const std::string format :
       {"{format = 'mxfp4'}", "{format = 'mxfp8_e4m3'}", "{format = 'nvfp4'}",
        "{format = 'int8', block = 'row'}", "{format = 'mxfp6_e3m2'}", "{format = 'fp16'}",
        "{format = 'fp8_e5m2', scale = 'pow2'}", "{format = 'fp8_e4m3'}",
        "{format = 'nvfp4', block = [16, 16]}"}) {
    SCOPED_TRACE(format);
    settings_.show = {0, 1};
    take("weight", {kRows, kCols}, w);
    take("grad", {1, kRows, kCols}, wave(kRows * kCols, 1));
    const io::Safetensors out =
        update("weights = { storage = " + format + ", update = 'stochastic' }");
    io::write_safetensors(in("plain"), {{"x", "F32", {kRows, kCols}, w.data()}});
    CastSettings cast;
    cast.cast = factor_cast("--a", format);
    (void)cast_file(in("plain"), in("cast"), cast, [](uint64_t) {});
    const io::Safetensors want(in("cast"));
    for (const io::SafetensorsEntry& entry : want.entries()) {
      const std::string part_name = entry.name.substr(1);  // of "x"
      const std::string name = part_name == ".values" ? "" : part_name;
      const io::SafetensorsEntry& got = out.at("step0.weight" + name);
      EXPECT_EQ(got.dtype, entry.dtype) << entry.name;
      EXPECT_EQ(got.shape, entry.shape) << entry.name;
      EXPECT_EQ(io::to_floats(got), io::to_floats(entry)) << entry.name;
      EXPECT_EQ(out.at("step1.weight" + name).shape, entry.shape);
    }
  }
}

// [errata-2, 12]
TEST_P(UpdateFileStates, ZeroStatesHaveScaleOne) {
  settings_.show = {0};
  for (const std::string moment :
       {"{format = 'int8', block = [1, 128]}", "'fp8_e4m3'", "{format = 'fp16', scale = 'pow2'}"}) {
    take("weight", {3, 130}, wave(3 * 130, 0.01f));
    take("grad", {1, 3, 130}, wave(3 * 130, 0.001f));
    const io::Safetensors out =
        update("optimizer = { moment1 = " + moment + ", moment2 = " + moment + " }");
    for (const std::string state : {"step0.moment1.scale", "step0.moment2.scale"})
      for (const float scale : io::to_floats(out.at(state))) EXPECT_EQ(scale, 1.0f) << moment;
  }
}

TEST_P(UpdateFileStates, AMeanOfSquaresIsNotNegative) {
  take("weight", {1, 2}, {0.5f, 0.25f});
  take("grad", {1, 1, 2}, {0.1f, 0.1f});
  take("state.moment2", {1, 2}, {0.1f, -0.1f});
  EXPECT_NE(error_of([&] { (void)update(""); }).find("state.moment2: has values below zero"),
            std::string::npos);
}

// Training would have skipped the step.
TEST_P(UpdateFileStates, WhatIsBeyondTheRangeOfItsFormatIsNamed) {
  take("weight", {1, 2}, {0.5f, 0.25f});
  take("grad", {2, 1, 2}, {0.1f, 0.1f, 1e4f, 0.1f});
  (void)update("optimizer.moment2 = 'fp16'");
  EXPECT_EQ(report_.overflowing, std::vector<std::string>{"step 2: moment2"});
  take("weight", {1, 2}, {0.5f, 0.25f});
  take("direction", {1, 2}, {3e38f, 1});
  settings_.lr = 10;
  (void)update(
      "weights = {storage = {format = 'fp8_e4m3', scale = 'pow2'}, update = 'stochastic'}");
  EXPECT_EQ(report_.overflowing, std::vector<std::string>{"step 1: weight"});
}

TEST_P(UpdateFileStates, StatesInBlocksGoOnWhereTheyStopped) {
  constexpr int64_t kRows = 7, kCols = 200;
  const auto w = wave(kRows * kCols, 0.01f);
  const auto grads = wave(6 * kRows * kCols, 0.001f);
  for (const std::string moment :
       {"{format = 'int8', block = [1, 128]}", "{format = 'fp8_e4m3', block = [1, 128]}",
        "{format = 'mxfp8_e4m3'}", "{format = 'fp16', scale = 'pow2'}", "'fp32'",
        "{format = 'bf16', rounding = 'stochastic'}"}) {
    SCOPED_TRACE(moment);
    const std::string recipe = "optimizer = { moment1 = " + moment + ", moment2 = 'bf16' }";
    const auto from = [&](size_t first, size_t count) {
      const auto at = grads.begin() + static_cast<std::ptrdiff_t>(first * w.size());
      take("grad", {static_cast<int64_t>(count), kRows, kCols},
           {at, at + static_cast<std::ptrdiff_t>(count * w.size())});
      settings_.first_step = static_cast<uint32_t>(first);
    };
    settings_.show = {4, 6};
    take("weight", {kRows, kCols}, w);
    from(0, 6);
    std::vector<float> want;
    {
      const io::Safetensors through = update(recipe);
      want = io::to_floats(through.at("step6.weight"));
      take("weight", {kRows, kCols}, io::to_floats(through.at("step4.weight")));
      for (const std::string state : {"moment1", "moment2"})
        take("state." + state, {kRows, kCols}, io::to_floats(through.at("step4." + state)));
    }
    settings_.show = {0, 2};
    from(4, 2);
    EXPECT_EQ(io::to_floats(update(recipe).at("step2.weight")), want);
  }
}

TEST_P(UpdateFileStates, OverridesAreThoseOfTheLayer) {
  const std::string recipe =
      "weights.storage = { format = 'fp8_e4m3', scale = 'pow2' }\n"
      "[[override]]\nlayers = '*.mlp.down'\nweights.storage = 'fp16'\n"
      "[[override]]\nlayers = '*.q'\nblocks = '-1:'\nweights.storage = 'bf16'\n";
  const auto stored = [&](const std::string& layer, int64_t blocks = 0) {
    settings_.layer = layer;
    settings_.blocks = blocks;
    take("weight", {1, 8}, wave(8, 1));
    take("direction", {1, 8}, wave(8, 1));
    (void)update(recipe);
    return report_.stored.at(0);
  };
  EXPECT_EQ(stored("blocks.0.mlp.up"), "weight fp8_e4m3 scale pow2");
  EXPECT_EQ(stored("blocks.3.mlp.down"), "weight fp16");
  EXPECT_EQ(stored("blocks.3.mlp.down.weight"), "weight fp16");
  EXPECT_EQ(stored("blocks.3.attn.q"), "weight bf16") << "the last block of a model of four";
  EXPECT_EQ(stored("blocks.3.attn.q", 8), "weight fp8_e4m3 scale pow2");
  for (const char* in_fp32 : {"embed", "head", "norm", "pos", "blocks.0.norm2",
                              "blocks.0.mlp.down.bias", "blocks.0.mlp.down.b_i"})
    EXPECT_EQ(stored(in_fp32), "weight fp32") << in_fp32;
}

// amax 4: MAX/8 <= 4/scale <= 448 for scales 2^-6 ... 2^-4. [errata-2, 14]
TEST_P(UpdateFileStates, StoredScalesStayWhileTheyFit) {
  const std::vector<float> w = {4, -1.5f, 0.5f, 0};
  const std::string fp8 = "weights.storage = { format = 'fp8_e4m3', scale = 'pow2' }\n";
  const auto scale_after = [&](const std::string& recipe, int given) {
    settings_.show = {0, 1};
    take("weight", {1, 4}, w);
    take("direction", {1, 4}, {0, 0, 0, 0});
    if (given != 0) take("weight.scale", {1}, {std::ldexp(1.0f, given)});
    const io::Safetensors out = update(recipe);
    EXPECT_EQ(io::to_floats(out.at("step1.weight")), w) << given;
    const auto power = [&](const char* name) { return std::ilogb(io::to_floats(out.at(name))[0]); };
    EXPECT_EQ(power("step0.weight.scale"), given == 0 ? -6 : given);
    return power("step1.weight.scale");
  };
  for (const std::string& recipe : {fp8, fp8 + "weights.master = 'fp16'\n"}) {
    EXPECT_EQ(scale_after(recipe, 0), -6) << "a fresh one";
    EXPECT_EQ(scale_after(recipe, -3), -6) << "coarser than need be";
    for (const int fits : {-4, -5, -6}) EXPECT_EQ(scale_after(recipe, fits), fits);
  }
  EXPECT_EQ(scale_after(fp8 + "weights.master = 'fp16'\n", -7), -6) << "4 did not fit";
  EXPECT_NE(error_of([&] { (void)scale_after(fp8, -7); }).find("weight.scale: 1 values"),
            std::string::npos);
}

TEST_P(UpdateFileStates, FiguresAreAbsentWhereTheyMeanNothing) {
  take("weight", {1, 4}, {1, 2, 3, 4});
  take("direction", {1, 4}, {0, 0, 0, 0});
  (void)update("weights = { storage = 'bf16', update = 'nearest' }");
  const UpdateFigures& still = report_.steps.at(0);
  EXPECT_EQ(still.update_norm, 0.0);
  EXPECT_EQ(still.target_norm, 0.0);
  EXPECT_FALSE(still.ratio || still.projection || still.cosine || still.alpha_over_lr);
  EXPECT_EQ(still.changed, 0);
  settings_.lr = 1;
  take("weight", {1, 4}, {1, 2, 3, 4});
  take("direction", {1, 4}, {0, 1, -1, 0x1p-20f});
  (void)update("weights = { storage = 'bf16', update = 'nearest' }");
  const UpdateFigures& moved = report_.steps.at(0);
  EXPECT_EQ(moved.update_norm, std::sqrt(2.0));
  EXPECT_NEAR(*moved.projection, 1, 1e-9);
  EXPECT_NEAR(*moved.cosine, 1, 1e-9);
  EXPECT_EQ(moved.changed, 0.5);
}

INSTANTIATE_TEST_SUITE_P(Backends, NarrowStates, testing::Values("ref", "cpu"),
                         [](const auto& backend) { return std::string(backend.param); });
INSTANTIATE_TEST_SUITE_P(Backends, UpdateFileStates, testing::Values("ref", "cpu"),
                         [](const auto& backend) { return std::string(backend.param); });

}  // namespace
}  // namespace ng
