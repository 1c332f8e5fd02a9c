// Gradients reduced over ranks against independent oracles: tests/golden/fp8lm/reduce.
#include <gtest/gtest.h>

#include <cmath>

#include "backend/cpu/cpu_backend.h"
#include "backend/gradient_scale.h"
#include "backend/ref/ref_backend.h"
#include "comm/gradient_exchange.h"
#include "comm/gradient_rivals.h"
#include "comm/thread_ranks.h"
#include "support/gathered_mean.h"
#include "support/golden_file.h"
#include "support/stored_tensor.h"

namespace ng {
namespace {

using Floats = std::vector<float>;
using Reduce = GradientRecipe::Reduce;

/// A case: every rank's gradient, and how it is sent.
struct Case {
  int64_t rows, cols;
  Operand cast;
  AutoScale scale;
  RandomKey key;
  int64_t accumulate;
  std::vector<Floats> gradients;  ///< by rank
};

Case case_of(const GoldenFile& golden, const std::string& name) {
  const Json& p = golden.cases()[name];
  Case it{.rows = p["rows"],
          .cols = p["cols"],
          .cast = operand_of("fp8_e4m3"),
          .scale = {},
          .key = {},
          .accumulate = 1,
          .gradients = {}};
  it.cast.scale = p["scale"] == "pow2" ? ScaleKind::pow2 : ScaleKind::fp32;
  it.cast =
      it.cast.rounded_by(p["rounding"] == "nearest" ? Rounding::nearest : Rounding::stochastic);
  it.scale.k = p["k"];
  it.scale.mu = static_cast<float>(std::exp2(p["k"].get<double>() / p["window"].get<double>()));
  EXPECT_EQ(it.scale.mu, golden.floats(name + ".mu")[0]);
  it.key.purpose = Purpose::gradient_wire;
  if (p.contains("seed")) {
    it.key.seed = std::stoull(p["seed"].get<std::string>());
    it.key.tensor = p["tensor_id"];
    it.key.step = p["step"];
    it.accumulate = p["accumulate"];
  }
  const Floats all = golden.floats(name + ".g");
  const auto size = it.rows * it.cols;
  for (auto at = all.begin(); at != all.end(); at += size) it.gradients.emplace_back(at, at + size);
  return it;
}

/// What all ranks together made of a case.
struct Outcome {
  std::vector<float> amax;
  float encode_scale = 0;  ///< S
  std::vector<std::vector<uint16_t>> codes;
  Floats sum, mean, ring, ring_mean;
  uint64_t largest_of_ring = 0;
  std::vector<std::vector<uint16_t>> gathered;  ///< codes of the mean, as each rank has them
  std::vector<float> gathered_scale;
  BytesByTraffic sent{};
};

using Pieces = std::vector<Piece>;

void put(Floats& all, const Pieces& pieces, int owner, int64_t cols, const Floats& mine) {
  auto from = mine.begin();
  for (const Piece& piece : pieces) {
    if (piece.owner != owner) continue;
    std::copy_n(from, piece.rows * cols, all.begin() + piece.first_row * cols);
    from += piece.rows * cols;
  }
}

class Reduction {
 public:
  Reduction(std::string_view backend, const Case& of, const Pieces& pieces)
      : backend_(backend), case_(of), pieces_(pieces) {
    const size_t ranks = of.gradients.size(), size = of.gradients[0].size();
    outcome_.amax.resize(ranks);
    outcome_.codes.resize(ranks);
    outcome_.gathered.resize(ranks);
    outcome_.gathered_scale.resize(ranks);
    for (Floats* all : {&outcome_.sum, &outcome_.mean, &outcome_.ring, &outcome_.ring_mean})
      all->resize(size);
  }
  Outcome run() {
    run_ranks(static_cast<int>(case_.gradients.size()), [&](Comm& comm) { rank(comm); });
    return outcome_;
  }

 private:
  void rank(Comm& comm) {
    const auto me = static_cast<size_t>(comm.rank());
    const std::unique_ptr<Backend> backend =
        backend_ == "ref" ? make_ref_backend(Threads{1}) : make_cpu_backend(Threads{1});
    StoredTensor x(*backend, operand_of("fp32"), case_.rows, case_.cols),
        y(*backend, case_.cast, case_.rows, case_.cols);
    x.put_floats(case_.gradients[me].data());
    const BackendMemory amax(*backend, sizeof(float)), scale(*backend, sizeof(AutoScale));
    backend->execute(FindAmax{.amax = amax.floats(), .x = x.view()});
    float largest = 0;
    backend->download(&largest, amax.data(), sizeof largest);
    outcome_.amax[me] = largest;
    comm.max({&largest, 1});
    backend->upload(amax.data(), &largest, sizeof largest);
    backend->upload(scale.data(), &case_.scale, sizeof case_.scale);
    RandomKey key = case_.key;
    key.micro = static_cast<uint32_t>(comm.rank() * case_.accumulate);
    backend->execute(StoreGradient{.y = y.stored(),
                                   .x = x.view(),
                                   .key = key,
                                   .scale = reinterpret_cast<AutoScale*>(scale.data()),
                                   .amax = amax.floats()});
    outcome_.codes[me] = y.codes();
    const float encode_scale = shared_encode_scale(case_.cast, largest, &case_.scale);
    if (me == 0) outcome_.encode_scale = encode_scale;

    const HostGradient mine(*backend, y.view());
    const BytesByTraffic before = comm.sent();
    const ReducedGradient reduced =
        reduce_gradient(comm, mine.view(), {case_.cast, Reduce::fp32, encode_scale}, pieces_);
    BytesByTraffic sent = comm.sent();
    for (size_t i = 0; i < sent.size(); ++i) sent[i] -= before[i];
    comm.sum(sent);
    put(outcome_.sum, pieces_, comm.rank(), case_.cols, reduced.sum);
    put(outcome_.mean, pieces_, comm.rank(), case_.cols, reduced.mean);
    const ReducedGradient ring =
        reduce_gradient(comm, mine.view(), {case_.cast, Reduce::wire, encode_scale}, pieces_);
    put(outcome_.ring, pieces_, comm.rank(), case_.cols, ring.sum);
    put(outcome_.ring_mean, pieces_, comm.rank(), case_.cols, ring.mean);
    uint64_t on_ring = ring.largest;
    comm.sum({&on_ring, 1});

    float of_mean = amax_of(reduced.mean);
    comm.max({&of_mean, 1});
    gathered_mean::gather_gradient(comm, *backend, reduced.mean, of_mean, pieces_, y.stored());
    outcome_.gathered[me] = y.codes();
    outcome_.gathered_scale[me] = y.decode_scales()[0];
    if (me != 0) return;
    outcome_.largest_of_ring = on_ring;
    outcome_.sent = sent;
  }

  std::string backend_;
  const Case& case_;
  const Pieces& pieces_;
  Outcome outcome_;
};

Floats decoded(const GoldenFile& golden, const std::string& name) {
  Floats values;
  for (const int64_t code : golden.integers(name))
    values.push_back(decode(element_format("e4m3"), static_cast<uint32_t>(code)));
  return values;
}

class GradientsOfRanks : public ::testing::TestWithParam<std::string_view> {
 protected:
  static const GoldenFile& golden() {
    static const GoldenFile file("fp8lm/reduce");
    return file;
  }
  template <class Check>
  static void each_case(const Check& check) {
    for (const auto& [name, parameters] : golden().cases().items()) {
      if (parameters.contains("skipped")) continue;
      SCOPED_TRACE(name);
      check(name + ".", case_of(golden(), name));
    }
  }
};

TEST_P(GradientsOfRanks, AreThoseOfTheOracle) {
  each_case([&](const std::string& name, const Case& of) {
    const auto ranks = of.gradients.size();
    const Pieces pieces = even_pieces(of.cast, of.rows, static_cast<int>(ranks));
    const Outcome got = Reduction(GetParam(), of, pieces).run();
    EXPECT_EQ(got.amax, golden().floats(name + "amax"));
    EXPECT_EQ(got.encode_scale, golden().floats(name + "S")[0]);
    std::vector<int64_t> codes, saturated;
    for (const std::vector<uint16_t>& of_rank : got.codes) {
      codes.insert(codes.end(), of_rank.begin(), of_rank.end());
      saturated.push_back(std::ranges::count(of_rank, 0x7E) + std::ranges::count(of_rank, 0xFE));
    }
    EXPECT_EQ(codes, golden().integers(name + "codes"));
    EXPECT_EQ(saturated, golden().integers(name + "saturated"));
    EXPECT_EQ(got.sum, golden().floats(name + "sum"));
    EXPECT_EQ(static_cast<float>(ranks) * got.encode_scale,
              golden().floats(name + "encode_scale")[0]);
    EXPECT_EQ(got.mean, golden().floats(name + "mean"));
    EXPECT_EQ(got.ring, decoded(golden(), name + "wire.codes"));
    EXPECT_EQ(got.ring_mean, golden().floats(name + "wire.mean"));
    EXPECT_EQ(got.largest_of_ring,
              static_cast<uint64_t>(golden().integers(name + "wire.saturated")[0]));
    for (size_t rank = 0; rank < ranks; ++rank) {
      EXPECT_EQ(got.gathered_scale[rank], 1 / golden().floats(name + "requant.encode_scale")[0]);
      EXPECT_EQ(std::vector<int64_t>(got.gathered[rank].begin(), got.gathered[rank].end()),
                golden().integers(name + "requant.codes"));
    }
  });
}

// Who owns what, and the order of ranks, changes no bit of an exact sum.
TEST_P(GradientsOfRanks, DoNotDependOnOwnersOrOrder) {
  each_case([&](const std::string& name, Case of) {
    const auto ranks = static_cast<int>(of.gradients.size());
    const Pieces even = even_pieces(of.cast, of.rows, ranks);
    const Pieces odd = {
        {0, 0, 3, ranks - 1}, {0, 3, 0, 0}, {0, 3, 1, 0}, {0, 4, of.rows - 4, ranks - 1}};
    const Outcome got = Reduction(GetParam(), of, odd).run();
    EXPECT_EQ(got.sum, golden().floats(name + "sum"));
    EXPECT_EQ(got.ring_mean, golden().floats(name + "wire.mean"));
    EXPECT_EQ(got.gathered[0], got.gathered[static_cast<size_t>(ranks - 1)]);
    if (of.cast.rounding == Rounding::stochastic) return;  // a rank's draws are its own
    std::ranges::reverse(of.gradients);
    EXPECT_EQ(Reduction(GetParam(), of, even).run().sum, got.sum);
  });
}

// All ranks together send every code to every other owner's rank once, and no scale.
TEST_P(GradientsOfRanks, AreCounted) {
  each_case([&](const std::string& /*name*/, const Case& of) {
    const auto ranks = static_cast<int>(of.gradients.size());
    const Outcome got = Reduction(GetParam(), of, even_pieces(of.cast, of.rows, ranks)).run();
    EXPECT_EQ(got.sent[static_cast<size_t>(Traffic::gradients)],
              static_cast<uint64_t>((ranks - 1) * of.rows * of.cols));
    EXPECT_EQ(got.sent[static_cast<size_t>(Traffic::scales)], 0U);
  });
}

INSTANTIATE_TEST_SUITE_P(Backends, GradientsOfRanks, ::testing::Values("ref", "cpu"),
                         [](const auto& backend) { return std::string(backend.param); });

TEST(GradientRivals, AreThoseOfTheOracle) {
  const GoldenFile golden("fp8lm/reduce");
  for (const auto& [name, parameters] : golden.cases().items()) {
    if (parameters.contains("skipped")) continue;
    SCOPED_TRACE(name);
    const Case of = case_of(golden, name);
    const RingMean pre = pre_scaled_mean(of.cast, of.gradients),
                   post = post_scaled_mean(of.cast, of.gradients);
    EXPECT_EQ(pre.sum, decoded(golden, name + ".pre.codes"));
    EXPECT_EQ(pre.mean, golden.floats(name + ".pre.mean"));
    EXPECT_EQ(post.sum, decoded(golden, name + ".post.codes"));
    EXPECT_EQ(post.mean, golden.floats(name + ".post.mean"));
  }
}

}  // namespace
}  // namespace ng
