// Gradients over ranks in every kind of wire, against whole tensors by definition.
#include "comm/gradient_exchange.h"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>

#include "backend/cpu/cpu_backend.h"
#include "backend/gradient_scale.h"
#include "backend/ref/ref_backend.h"
#include "backend/ref/update/store.h"
#include "comm/thread_ranks.h"
#include "support/gathered_mean.h"
#include "support/stored_tensor.h"

namespace ng {
namespace {

constexpr int kRanks = 3;
using Floats = std::vector<float>;

struct Wire {
  const char* name;
  Operand cast;
};

Operand changed(const char* name, const std::function<void(Operand&)>& change) {
  Operand cast = operand_of(name);
  change(cast);
  return cast;
}

std::vector<Wire> wires() {
  const auto tensor = [](Operand& cast) { cast.block = {}; };
  return {{"fp32", operand_of("fp32")},
          {"bf16", operand_of("bf16")},
          {"fp16", operand_of("fp16")},
          {"e4m3", operand_of("fp8_e4m3")},
          {"e5m2", operand_of("fp8_e5m2")},
          {"e4m3_rows", changed("fp8_e4m3", [](Operand& c) { c.block.kind = Block::Kind::row; })},
          {"e4m3_tiles", changed("fp8_e4m3",
                                 [](Operand& c) {
                                   c.block = {.kind = Block::Kind::tile, .rows = 4, .cols = 16};
                                 })},
          {"mxfp8", operand_of("mxfp8_e4m3")},
          {"mxfp4", operand_of("mxfp4").rounded_by(Rounding::stochastic)},
          {"nvfp4", operand_of("nvfp4")},
          {"int8_rows", operand_of("int8")},
          {"int8", changed("int8", tensor)}};
}

/// Values of many sizes; rank 1 has zeros.
Floats gradient_of(int rank, int64_t size) {
  Floats values;
  for (int64_t i = 0; i < size; ++i) {
    const auto x = static_cast<float>(i + 7 * rank);
    values.push_back(rank == 1 ? 0.0f : std::sin(x * x) * std::exp2(std::fmod(x, 11.0f) - 6));
  }
  return values;
}

std::unique_ptr<Backend> backend_of(std::string_view name) {
  return name == "ref" ? make_ref_backend(Threads{1}) : make_cpu_backend(Threads{1});
}

class Exchange : public ::testing::TestWithParam<std::string_view> {
 protected:
  /// A gradient as a rank sends it.
  static void encode(Backend& backend, const StoredTensor& y, const Operand& cast, int rank,
                     float amax, int64_t rows, int64_t cols) {
    StoredTensor x(backend, operand_of("fp32"), rows, cols);
    x.put_floats(gradient_of(rank, rows * cols).data());
    backend.execute(StoreGradient{
        .y = y.stored(),
        .x = x.view(),
        .key = {.seed = 5, .purpose = Purpose::gradient_wire, .micro = uint32_t(rank)},
        .amax = ranks_share_scale(cast) ? &amax : nullptr});
  }
  /// fl of the sum in FP64 of what all ranks' tensors stand for, in units of shared codes.
  static Floats sum_by_definition(const Operand& cast, float amax, int64_t rows, int64_t cols) {
    const std::unique_ptr<Backend> backend = make_ref_backend(Threads{1});
    std::vector<double> sums(static_cast<size_t>(rows * cols));
    for (int rank = 0; rank < kRanks; ++rank) {
      const StoredTensor y(*backend, cast, rows, cols);
      encode(*backend, y, cast, rank, amax, rows, cols);
      ConstView view = y.view();
      if (ranks_share_scale(cast)) view.scales = {};
      const Floats values = ref::values_of(view);
      for (size_t i = 0; i < sums.size(); ++i) sums[i] += static_cast<double>(values[i]);
    }
    return {sums.begin(), sums.end()};
  }
  /// A mean as it is stored whole, nearest even.
  static void store_whole(Backend& backend, const StoredTensor& y, const Floats& mean, float amax) {
    StoredTensor x(backend, operand_of("fp32"), y.view().rows, y.view().cols);
    x.put_floats(mean.data());
    backend.execute(StoreGradient{
        .y = y.stored().rounded_by(Rounding::nearest), .x = x.view(), .key = {}, .amax = &amax});
  }
};

TEST_P(Exchange, SumsAndGathersAsIfWhole) {
  for (const Wire& wire : wires())
    for (const auto& [rows, cols] :
         {std::pair<int64_t, int64_t>{10, 50}, {1, 33}, {2, 16}, {37, 7}}) {
      SCOPED_TRACE(fmt::format("{} {}x{}", wire.name, rows, cols));
      float amax = 0;
      for (int rank = 0; rank < kRanks; ++rank)
        amax = std::max(amax, amax_of(gradient_of(rank, rows * cols)));
      const Operand& cast = wire.cast;
      const float scale = ranks_share_scale(cast) ? shared_encode_scale(cast, amax, nullptr) : 1.0f;
      const Floats sum = sum_by_definition(cast, amax, rows, cols);
      Floats mean;
      for (const float x : sum) mean.push_back(x * (1.0f / (kRanks * scale)));
      const std::vector<Piece> pieces = even_pieces(cast, rows, kRanks);
      run_ranks(kRanks, [&, rows = rows, cols = cols](Comm& comm) {
        const std::unique_ptr<Backend> backend = backend_of(GetParam());
        const StoredTensor y(*backend, cast, rows, cols);
        encode(*backend, y, cast, comm.rank(), amax, rows, cols);
        const HostGradient mine(*backend, y.view());
        const ReducedGradient reduced =
            reduce_gradient(comm, mine.view(), {cast, GradientRecipe::Reduce::fp32, scale}, pieces);
        const Piece& own = pieces[static_cast<size_t>(comm.rank())];
        const auto first = sum.begin() + own.first_row * cols;
        EXPECT_EQ(reduced.sum, Floats(first, first + own.rows * cols));
        float of_mean = amax_of(reduced.mean);
        comm.max({&of_mean, 1});
        EXPECT_EQ(of_mean, amax_of(mean));
        gathered_mean::gather_gradient(comm, *backend, reduced.mean, of_mean, pieces, y.stored());
        const StoredTensor whole(*backend, cast, rows, cols);
        store_whole(*backend, whole, mean, of_mean);
        EXPECT_EQ(ref::values_of(y.view()), ref::values_of(whole.view()));
        EXPECT_EQ(y.scale_bytes(), whole.scale_bytes());
      });
    }
}

// What travels: elements of others' pieces, and scales where each rank has its own.
TEST_P(Exchange, CountsElementsAndScales) {
  const auto sent = [&](const char* name) {
    const Operand cast = operand_of(name);
    BytesByTraffic all{};
    run_ranks(2, [&](Comm& comm) {
      const std::unique_ptr<Backend> backend = backend_of(GetParam());
      const StoredTensor y(*backend, cast, 32, 64);
      encode(*backend, y, cast, comm.rank(), 100, 32, 64);
      (void)reduce_gradient(comm, HostGradient(*backend, y.view()).view(), {cast},
                            even_pieces(cast, 32, 2));
      BytesByTraffic bytes = comm.sent();
      comm.sum(bytes);
      if (comm.rank() == 0) all = bytes;
    });
    return std::pair(all[size_t(Traffic::gradients)], all[size_t(Traffic::scales)]);
  };
  using Bytes = std::pair<uint64_t, uint64_t>;
  EXPECT_EQ(sent("fp32"), (Bytes{32 * 64 * 4, 0}));
  EXPECT_EQ(sent("fp8_e4m3"), (Bytes{32 * 64, 0}));
  EXPECT_EQ(sent("mxfp4"), (Bytes{32 * 64 / 2, 32 * 2}));
  EXPECT_EQ(sent("nvfp4"), (Bytes{32 * 64 / 2, 32 * 4 + 2 * 4}));
}

TEST_P(Exchange, OneValueThatIsNotFiniteReachesAllMeans) {
  // Of all owners where it is a scale of the whole tensor that is not finite.
  for (const auto& [name, owners] :
       {std::pair{"fp8_e4m3", 2U}, {"nvfp4", 2U}, {"mxfp4", 1U}, {"bf16", 1U}}) {
    SCOPED_TRACE(name);
    const Operand cast = operand_of(name);
    uint64_t bad = 0;
    run_ranks(2, [&](Comm& comm) {
      const std::unique_ptr<Backend> backend = backend_of(GetParam());
      StoredTensor x(*backend, operand_of("fp32"), 8, 32), y(*backend, cast, 8, 32);
      Floats values = gradient_of(0, 8 * 32);
      if (comm.rank() == 1) values[0] = std::numeric_limits<float>::infinity();
      x.put_floats(values.data());
      float amax = amax_of(values);
      comm.max({&amax, 1});
      backend->execute(StoreGradient{.y = y.stored(),
                                     .x = x.view(),
                                     .key = {},
                                     .amax = ranks_share_scale(cast) ? &amax : nullptr});
      const float scale = ranks_share_scale(cast) ? shared_encode_scale(cast, amax, nullptr) : 1.0f;
      const ReducedGradient reduced =
          reduce_gradient(comm, HostGradient(*backend, y.view()).view(),
                          {cast, GradientRecipe::Reduce::fp32, scale}, even_pieces(cast, 8, 2));
      uint64_t mine = std::isfinite(amax_of(reduced.mean)) ? 0 : 1;
      comm.sum({&mine, 1});
      if (comm.rank() == 0) bad = mine;
    });
    EXPECT_EQ(bad, owners);
  }
}

INSTANTIATE_TEST_SUITE_P(Backends, Exchange, ::testing::Values("ref", "cpu"),
                         [](const auto& backend) { return std::string(backend.param); });

}  // namespace
}  // namespace ng
