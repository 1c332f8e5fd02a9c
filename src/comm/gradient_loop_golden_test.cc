// Auto-scaling in a closed loop over ranks against an independent oracle: tests/golden/fp8lm/mu.
#include <gtest/gtest.h>

#include <cmath>

#include "backend/gradient_scale.h"
#include "backend/ref/ref_backend.h"
#include "comm/gradient_exchange.h"
#include "comm/gradient_sum.h"
#include "comm/thread_ranks.h"
#include "math/weight_noise.h"
#include "support/golden_file.h"
#include "support/stored_tensor.h"

namespace ng {
namespace {

using Reduce = GradientRecipe::Reduce;

/// A case's gradient of one rank in one step: fl(fl(fl(U*U)*U)*c).
std::vector<float> gradient_of(const Json& p, uint32_t step, int rank) {
  const int64_t rows = p["rows"], cols = p["cols"];
  const RandomKey key{.seed = std::stoull(p["seed"].get<std::string>()),
                      .tensor = p["tensor_id"],
                      .step = step,
                      .purpose = Purpose::data,
                      .micro = static_cast<uint32_t>(rank)};
  const float c = step < p["jump"].get<uint32_t>() ? 1.0f : 100.0f;
  std::vector<float> values;
  for (int64_t r = 0; r < rows; ++r)
    for (int64_t col = 0; col < cols; ++col) {
      const float u =
          centered_uniform(random_bits(key, static_cast<uint64_t>(r), static_cast<uint64_t>(col),
                                       static_cast<uint64_t>(cols), 16));
      values.push_back(u * u * u * c);
    }
  return values;
}

/// Steps of one rank; what counts as saturated in each, and k afterwards.
struct Trace {
  std::vector<int64_t> saturated, k;
};

Trace trace_of(Comm& comm, const Json& p) {
  const std::unique_ptr<Backend> backend = make_ref_backend(Threads{1});
  const int64_t rows = p["rows"], cols = p["cols"];
  Operand cast = operand_of("fp8_e4m3");
  cast.scale = ScaleKind::pow2;
  const Reduce reduce = p["reduce"] == "wire" ? Reduce::wire : Reduce::fp32;
  StoredTensor x(*backend, operand_of("fp32"), rows, cols), y(*backend, cast, rows, cols);
  const std::vector<Piece> pieces = even_pieces(cast, rows, comm.ranks());
  AutoScale scale{.k = p["k0"]};
  scale.mu = static_cast<float>(std::exp2(scale.k / p["window"].get<double>()));
  Trace trace;
  for (uint32_t step = 0; step < p["checks"].get<uint32_t>(); ++step) {
    const std::vector<float> gradient = gradient_of(p, step, comm.rank());
    float amax = amax_of(gradient);
    comm.max({&amax, 1});
    x.put_floats(gradient.data());
    backend->execute(
        StoreGradient{.y = y.stored(), .x = x.view(), .key = {}, .scale = &scale, .amax = &amax});
    const HostGradient mine(*backend, y.view());
    const ReducedGradient reduced = reduce_gradient(
        comm, mine.view(), {cast, reduce, shared_encode_scale(cast, amax, &scale)}, pieces);
    const std::vector<uint16_t> codes = y.codes();
    uint64_t saturated = reduced.largest;
    if (reduce == Reduce::fp32)
      saturated =
          static_cast<uint64_t>(std::ranges::count(codes, 0x7E) + std::ranges::count(codes, 0xFE));
    comm.sum({&saturated, 1});
    const int64_t all = rows * cols * (reduce == Reduce::wire ? 1 : comm.ranks());
    move_auto_scale(
        {.scale = &scale, .codes = {}, .threshold = p["threshold"], .window = p["window"]},
        static_cast<int64_t>(saturated), all);
    trace.saturated.push_back(static_cast<int64_t>(saturated));
    trace.k.push_back(static_cast<int64_t>(scale.k));
  }
  return trace;
}

TEST(GradientLoop, MuFollowsWhatSaturates) {
  const GoldenFile golden("fp8lm/mu");
  for (const std::string name : {"loop_wire", "loop_fp32"}) {
    SCOPED_TRACE(name);
    const Json& p = golden.cases()[name];
    run_ranks(p["ranks"], [&](Comm& comm) {
      const Trace trace = trace_of(comm, p);
      EXPECT_EQ(trace.saturated, golden.integers(name + ".saturated")) << comm.rank();
      EXPECT_EQ(trace.k, golden.integers(name + ".k")) << comm.rank();
    });
  }
}

}  // namespace
}  // namespace ng
