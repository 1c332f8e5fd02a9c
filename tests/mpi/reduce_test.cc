// `reduce`: gradients of a file over ranks, by mpirun and by one process.
#include <algorithm>
#include <cmath>
#include <limits>

#include "base/json.h"
#include "format/codec.h"
#include "io/safetensors.h"
#include "mpi/gradients_of_ranks.h"
#include "mpi/program_of_ranks.h"
#include "support/golden_file.h"

namespace ng::e2e {
namespace {

using Floats = std::vector<float>;

Floats floats(const io::Safetensors& file, const char* name) {
  return io::to_floats(file.at(name));
}
std::vector<int64_t> integers(const io::Safetensors& file, const char* name) {
  return io::to_integers(file.at(name));
}

class Reduce : public ProgramOfRanks {
 protected:
  void SetUp() override {}  // one process needs no MPI
};
class ReduceByRanks : public ProgramOfRanks {};

Floats decoded(const std::vector<int64_t>& codes) {
  Floats values;
  for (const int64_t code : codes)
    values.push_back(decode(element_format("e4m3"), static_cast<uint32_t>(code)));
  return values;
}

TEST_F(Reduce, IsThatOfTheOracle) {
  const GoldenFile golden("fp8lm/reduce");
  for (const auto& [name, p] : golden.cases().items()) {
    if (p.contains("skipped")) continue;
    write_gradients(path("in"), golden.shape(name + ".g"), golden.floats(name + ".g"));
    for (const std::string reduce : {"fp32", "wire"}) {
      SCOPED_TRACE(fmt::format("{} {}", name, reduce));
      write_text(
          path("r.toml"),
          fmt::format("name = 'r'\ngradient = {{ communicate = {{ format = 'fp8_e4m3', scale = "
                      "'{}', rounding = '{}' }}, reduce = '{}', growth_interval = {} }}\n",
                      p["scale"].get<std::string>(), p["rounding"].get<std::string>(), reduce,
                      p["window"].get<int>()));
      std::vector<std::string> args = {
          "reduce", "in",     "out",    "--recipe",
          "r.toml", "--json", "--mu-k", std::to_string(p["k"].get<int>())};
      if (p.contains("seed"))
        for (const auto& [flag, key] : {std::pair{"--seed", "seed"},
                                        {"--step", "step"},
                                        {"--tensor-id", "tensor_id"},
                                        {"--accumulate", "accumulate"}})
          args.insert(args.end(), {flag, p[key].is_string() ? p[key].get<std::string>()
                                                            : std::to_string(p[key].get<int>())});
      const Json figures = Json::parse(run_well(args));
      const io::Safetensors out(path("out"));
      EXPECT_EQ(integers(out, "codes"), golden.integers(name + ".codes"));
      EXPECT_EQ(floats(out, "scale"), Floats{1 / golden.floats(name + ".S")[0]});
      EXPECT_EQ(integers(out, "saturated"), golden.integers(name + ".saturated"));
      EXPECT_EQ(integers(out, "mu_k"), std::vector<int64_t>{p["k"].get<int64_t>()});
      const bool is_ring = reduce == "wire";
      EXPECT_EQ(floats(out, "sum"), is_ring ? decoded(golden.integers(name + ".wire.codes"))
                                            : golden.floats(name + ".sum"));
      const Floats sum = floats(out, "sum");
      const auto largest =
          std::count_if(sum.begin(), sum.end(), [](float x) { return std::abs(x) == 448; });
      EXPECT_EQ(figures["saturated_sums"], is_ring ? Json(largest) : Json());
      EXPECT_EQ(floats(out, "mean"), golden.floats(name + (is_ring ? ".wire.mean" : ".mean")));
      const Json& snr = p["snr_db"][reduce];  // in two places; infinite: null
      if (!snr.is_null()) {
        EXPECT_NEAR(figures["snr_db"].get<double>(), snr.get<double>(), 0.00501);
      }
      const auto codes = static_cast<uint64_t>(golden.integers(name + ".codes").size());
      const uint64_t ranks = p["ranks"];
      EXPECT_EQ(figures["sent"]["gradients"], codes / ranks * (ranks - 1));
    }
  }
}

TEST_F(Reduce, MovesMuWhereTheRecipeSaysSo) {
  // One code of eight is the largest, of either sign.
  write_gradients(path("in"), {2, 1, 4}, {1, 0.1f, 0.1f, 0.1f, 0.1f, 0.1f, 0.1f, 0.1f});
  const auto k_after = [&](const char* threshold) {
    write_text(path("r.toml"),
               fmt::format("name = 'r'\ngradient = {{ communicate = 'fp8_e4m3', auto_scale = true, "
                           "growth_interval = 50, auto_scale_delta = {} }}\n",
                           threshold));
    (void)run_well({"reduce", "in", "out", "--recipe", "r.toml", "--mu-k", "7"});
    return integers(io::Safetensors(path("out")), "mu_k").front();
  };
  EXPECT_EQ(k_after("0.1"), 7 - 50);
  EXPECT_EQ(k_after("0.125"), 7 + 1) << "at the threshold is not above it";
}

TEST_F(Reduce, SkipsWhatIsNotFinite) {
  for (const float bad :
       {std::numeric_limits<float>::quiet_NaN(), -std::numeric_limits<float>::infinity()}) {
    Floats g(2 * 3 * 5, 1.0f);
    g[17] = bad;
    write_gradients(path("in"), {2, 3, 5}, g);
    const Json figures = Json::parse(
        run_well({"reduce", "in", "out", "--recipe", "fp8-lm", "--mu-k", "-3", "--json"}));
    EXPECT_EQ(figures["skip"], 1);
    const io::Safetensors out(path("out"));
    EXPECT_EQ(integers(out, "skip"), std::vector<int64_t>{1});
    EXPECT_EQ(integers(out, "mu_k"), std::vector<int64_t>{-3});
    EXPECT_EQ(out.find("codes"), nullptr);
  }
}

TEST_F(Reduce, RefusesInOneLine) {
  const auto refuses = [&](const std::vector<std::string>& more,
                           const std::vector<std::string>& says, const char* recipe = "fp8-lm") {
    std::vector<std::string> args = {"reduce", "in", "out", "--recipe", recipe};
    args.insert(args.end(), more.begin(), more.end());
    expect_refused(args, 1, says);
    EXPECT_FALSE(fs::exists(path("out"))) << "nothing half-written";
  };
  refuses({}, {"in"});
  const Floats g(24, 1.0f);
  write_gradients(path("in"), {4, 6}, g);
  refuses({}, {"in: grad: has shape (4, 6): (ranks, rows, columns)"});
  write_gradients(path("in"), {2, 0, 6}, g);
  refuses({}, {"in: grad: has shape (2, 0, 6)"});
  io::write_safetensors(path("in"), {{"grad", "I32", {2, 3, 4}, g.data()}});
  refuses({}, {"in: grad: dtype I32: floating-point values"});
  io::write_safetensors(path("in"), {{"gradient", "F32", {2, 3, 4}, g.data()}});
  refuses({}, {"grad"});
  write_gradients(path("in"), {2, 3, 4}, g);
  refuses({"--mu-k", "24001"}, {"--mu-k: 24001", "from -24000 to 24000"});
  refuses({"--mu-k", "1"}, {"--mu-k: 1: fp32 has no scale that ranks share: 0"}, "mxfp4-sr");
  refuses({"--accumulate", "16777216"}, {"--accumulate", "at most 16777216 together"});
}

// ranks_test has every wire with every number of ranks.
TEST_F(ReduceByRanks, WriteTheSameBytesAsOneProcess) {
  for (const int ranks : {2, 3, 4}) {
    const std::string& wire = kWires[ranks - 2];
    SCOPED_TRACE(fmt::format("{} {}", ranks, wire));
    write_gradients(path("in"), ranks);
    write_text(path("r.toml"), recipe_of_wire(wire));
    const std::string words = "reduce in {} --recipe r.toml --accumulate 3 --threads 1 --json";
    const Result many = mpirun(ranks, fmt::format(fmt::runtime(words), "many"));
    ASSERT_EQ(many.code, 0) << many.err;
    EXPECT_TRUE(lines_of_program(many.err).empty()) << many.err;
    const std::string one = run_well({"reduce", "in", "one", "--recipe", "r.toml", "--accumulate",
                                      "3", "--threads", "1", "--json"});
    EXPECT_EQ(many.out, one) << "rank 0 alone prints";
    EXPECT_TRUE(text_of(path("many")) == text_of(path("one")));
  }
}

TEST_F(ReduceByRanks, RefuseAnotherNumberOfRanks) {
  write_gradients(path("in"), 3);
  const std::string of_three = "in: grad: holds gradients of 3 ranks, but ",
                    remedy = " started: mpirun -n 3, or no mpirun";
  for (const auto& [ranks, started] :
       {std::pair{2, "narrowgauge: rank 0: " + of_three + "2 were" + remedy},
        {1, "narrowgauge: " + of_three + "1 was" + remedy}}) {
    const Result result = mpirun(ranks, "reduce in out --recipe fp8-lm");
    EXPECT_EQ(result.code, 1);
    EXPECT_EQ(lines_of_program(result.err).front(), started) << result.err;
    EXPECT_EQ(result.out, "");
    EXPECT_FALSE(fs::exists(path("out")));
  }
}

// A file that only one rank cannot read: the others wait for its gradient.
TEST_F(ReduceByRanks, EndTogetherWhereOneFails) {
  for (const char* name : {"in0", "in2"}) write_gradients(path(name), 3);
  const Result result = mpirun_command(
      3, "sh -c 'exec \"$NG_PROGRAM\" reduce in$OMPI_COMM_WORLD_RANK out --recipe fp8-lm'");
  EXPECT_EQ(result.code, 1) << result.err;
  const std::vector<std::string> lines = lines_of_program(result.err);
  ASSERT_EQ(lines.size(), 1U) << result.err;
  EXPECT_TRUE(lines[0].starts_with("narrowgauge: rank 1: in1: ")) << lines[0];
  EXPECT_FALSE(fs::exists(path("out")));
}

TEST_F(ReduceByRanks, OtherCommandsRefuseToBeSeveral) {
  const Result result = mpirun(2, "info");
  EXPECT_EQ(result.code, 1);
  EXPECT_EQ(lines_of_program(result.err).front(),
            "narrowgauge: info: started as 2 ranks, but it works in one process: without "
            "mpirun or srun");
}

TEST_F(ReduceByRanks, AWrongCommandLineIsWrongOnAllRanks) {
  const Result result = mpirun(2, "reduce in out");
  EXPECT_EQ(result.code, 2) << result.err;
  EXPECT_EQ(result.out, "");
}

}  // namespace
}  // namespace ng::e2e
