// Two layers that ranks divide, outputs of the first and inputs of the second: gathered tokens are
// those of one cast, and where sums are exact everything is what one rank computes, to the bit.
#include "nn/tensor_group.h"

#include <gtest/gtest.h>

#include <array>
#include <functional>

#include "comm/thread_ranks.h"
#include "nn/linear.h"
#include "run/backends.h"
#include "run/transfer.h"

namespace ng {
namespace {

constexpr int64_t kGroupTokens = 64, kGroupWidth = 32, kHidden = 128;

using GroupValues = std::vector<float>;

/// Small integers, the same on every rank.
GroupValues integers(int64_t count, uint32_t seed, int64_t largest) {
  GroupValues values(static_cast<size_t>(count));
  const RandomKey key{.seed = seed, .tensor = 0, .step = 0, .purpose = Purpose::init};
  for (size_t i = 0; i < values.size(); ++i) {
    const auto span = static_cast<uint32_t>(2 * largest + 1);
    values[i] = static_cast<float>(static_cast<int64_t>(draw(key, i)[0] % span) - largest);
  }
  return values;
}

/// The two layers of one rank.
class Layers {
 public:
  Layers(Run& run, const LinearRecipe& recipe) : run_(run) {
    const Comm& group = run.tensor_group();
    const Cut cut{.part = group.rank(), .parts = group.ranks()};
    make(up_, 5, kHidden, kGroupWidth, Cut::Axis::rows, cut, 2);
    make(down_, 6, kGroupWidth, kHidden, Cut::Axis::cols, cut, 3);
    bias_.id = 7;
    bias_.spec.rows = 1;
    bias_.weight.value = stored_plainly(matrix(1, kGroupWidth));
    const GroupValues bias = integers(kGroupWidth, 4, 2);
    upload_row(run.backend(), bias_.value(), 0, bias);
    first_.emplace(run,
                   Linear::Parts{.name = "up", .output = 8, .weight = &up_, .phases = {recipe}});
    second_.emplace(
        run,
        Linear::Parts{
            .name = "down", .output = 9, .weight = &down_, .bias = &bias_, .phases = {recipe}});
  }

  [[nodiscard]] View matrix(int64_t rows, int64_t cols) {
    float* const data = run_.persistent_values<float>("matrix", static_cast<size_t>(rows * cols));
    return {reinterpret_cast<std::byte*>(data), fp32_format(), rows, cols, cols};
  }

  Linear& up() { return *first_; }
  Linear& down() { return *second_; }
  Parameter& up_weight() { return up_; }
  Parameter& down_weight() { return down_; }
  Parameter& bias() { return bias_; }

 private:
  void make(Parameter& weight, uint32_t id, int64_t rows, int64_t cols, Cut::Axis axis, Cut cut,
            uint32_t seed) {
    const GroupValues whole = integers(rows * cols, seed, 3);
    if (cut.parts > 1) {
      cut.axis = axis;
      weight.spec.cut = cut;
    }
    weight.id = id;
    const bool by_rows = axis == Cut::Axis::rows;
    weight.spec.rows = rows / (by_rows ? cut.parts : 1);
    weight.spec.cols = cols / (by_rows ? 1 : cut.parts);
    weight.weight.value = stored_plainly(matrix(weight.spec.rows, weight.spec.cols));
    for (const CutPiece& at : pieces_of(weight.spec.cut, weight.spec.rows, weight.spec.cols))
      for (int64_t r = 0; r < at.rows; ++r) {
        const auto first = whole.begin() + (at.whole_row + r) * cols + at.whole_col;
        upload_row(run_.backend(), weight.value(), at.row + r, GroupValues(first, first + at.cols));
      }
  }

  Run& run_;
  Parameter up_, down_, bias_;
  std::optional<Linear> first_, second_;
};

/// What all ranks have together, as one rank would.
struct Outcome {
  GroupValues y = GroupValues(kGroupTokens * kGroupWidth), dx = y,
              dup = GroupValues(kHidden * kGroupWidth), ddown = dup,
              dbias = GroupValues(kGroupWidth);
  uint64_t activations = 0;  ///< bytes that a rank sent
};

void put_rows(GroupValues& whole, int64_t first, const GroupValues& rows) {
  std::copy(rows.begin(), rows.end(), whole.begin() + first * kGroupWidth);
}

void put_part(GroupValues& whole, int64_t whole_cols, const ParameterSpec& spec,
              const GroupValues& part) {
  for (const CutPiece& at : pieces_of(spec.cut, spec.rows, spec.cols))
    for (int64_t r = 0; r < at.rows; ++r)
      std::copy_n(part.begin() + (at.row + r) * spec.cols + at.col, at.cols,
                  whole.begin() + (at.whole_row + r) * whole_cols + at.whole_col);
}

Outcome pass(const LinearRecipe& recipe, const TokenWires& wires, int ranks,
             const std::string& backend) {
  Outcome all;
  run_ranks(ranks, [&](Comm& comm) {
    Run run(make_backend(backend, Threads{1}), 11, 0, &comm, ranks);
    run.set_moment({.step = 3, .is_summed_later = true});
    Layers layers(run, recipe);
    const TokenSlice own = own_tokens(run, kGroupTokens);
    const GroupValues x = integers(kGroupTokens * kGroupWidth, 1, 4),
                      dy = integers(kGroupTokens * kGroupWidth, 9, 2);
    const View mine = layers.matrix(own.count, kGroupWidth),
               dmine = layers.matrix(own.count, kGroupWidth),
               y = layers.matrix(own.count, kGroupWidth),
               dx = layers.matrix(own.count, kGroupWidth);
    for (int64_t r = 0; r < own.count; ++r) {
      const auto row = [&](const GroupValues& of) {
        const auto first = of.begin() + (own.first + r) * kGroupWidth;
        return GroupValues(first, first + kGroupWidth);
      };
      upload_row(run.backend(), mine, r, row(x));
      upload_row(run.backend(), dmine, r, row(dy));
    }
    const auto body = [&] {
      Source n = gathered(run, Source({}, mine, 3), wires.inputs);
      Source h(run.tensor(kGroupTokens, layers.up().outputs(), fp32_format()), 4);
      layers.up().fprop(run, h.owner(), n);
      const Tensor part = run.tensor(kGroupTokens, kGroupWidth, fp32_format());
      layers.down().fprop(run, part, h);
      run.execute(Copy{.y = y, .x = sum_of_own_tokens(run, part, wires.sums, fp32_format())});
      if (layers.down().divides_inputs()) layers.down().add_bias_gradient(run, dmine);
      Source dout = gathered(run, Source({}, dmine, 9), wires.gradients);
      Source dh(run.tensor(kGroupTokens, layers.up().outputs(), fp32_format()), 8);
      layers.down().backward(run, dh.owner(), Into::overwrite, h, dout);
      const Tensor dn = run.tensor(kGroupTokens, kGroupWidth, fp32_format());
      layers.up().backward(run, dn, Into::overwrite, n, dh);
      run.execute(Copy{.y = dx, .x = sum_of_own_tokens(run, dn, wires.sums, fp32_format())});
      if (run.recording()) return;
      std::vector<float> dbias = download(run.backend(), layers.bias().grad.view());
      const GroupValues dup = download(run.backend(), layers.up_weight().grad.view()),
                        ddown = download(run.backend(), layers.down_weight().grad.view());
      std::vector<double> sums(dbias.begin(), dbias.end());
      comm.sum(sums);
      for (int rank = 0; rank < ranks; ++rank, comm.barrier()) {
        if (rank != comm.rank()) continue;
        put_rows(all.y, own.first, download(run.backend(), y));
        put_rows(all.dx, own.first, download(run.backend(), dx));
        put_part(all.dup, kGroupWidth, layers.up_weight().spec, dup);
        put_part(all.ddown, kHidden, layers.down_weight().spec, ddown);
        std::copy(sums.begin(), sums.end(), all.dbias.begin());
        all.activations = run.ranks().sent()[static_cast<size_t>(Traffic::activations)];
      }
    };
    const auto step = [&] {
      body();
      forget_step(layers.up_weight());
      forget_step(layers.down_weight());
      forget_step(layers.bias());
    };
    const Program program = run.record(step);
    run.reserve({&program});
    run.replay(program, step);
  });
  return all;
}

LinearRecipe recipe_of(const char* keys) {
  return Recipe::parse(std::string("name='t'\n") + keys, "test.toml")
      .linear({.name = "blocks.0.mlp.up", .block = 0, .depth = 1}, 0);
}

Operand cast_of(std::string_view name, bool by_power = false) {
  Operand cast = operand_of(name);
  if (by_power) cast.scale = ScaleKind::pow2;
  return cast;
}

/// Scales are powers of two and sums short, so that no order of additions shows.
TEST(TensorGroup, ExactSumsAreThoseOfOneRank) {
  struct SumCase {
    const char* keys;
    TokenWires wires;
  };
  const Operand fp32 = cast_of("fp32"), bf16 = cast_of("bf16"), e4m3 = cast_of("fp8_e4m3", true),
                mxfp8 = cast_of("mxfp8_e4m3");
  const char* const fp8 =
      "linear.fprop={input={format='fp8_e4m3', scale='pow2'},"
      " weight={format='fp8_e4m3', scale='pow2'}}\n"
      "linear.dgrad={grad={format='fp8_e5m2', scale='pow2'},"
      " weight={format='fp8_e4m3', scale='pow2'}}\n"
      "linear.wgrad={grad={format='fp8_e5m2', scale='pow2'},"
      " input={format='fp8_e4m3', scale='pow2'}}\n";
  const char* const mxfp4 =
      "linear.fprop={input='mxfp8_e4m3', weight='mxfp4'}\n"
      "linear.dgrad={grad={format='mxfp4', rounding='stochastic'},"
      " weight={format='mxfp4', rounding='stochastic'}}\n"
      "linear.wgrad={grad={format='mxfp4', rounding='stochastic'},"
      " input={format='mxfp4', rounding='stochastic'}}\n";
  for (const SumCase& c :
       {SumCase{"", {fp32, fp32, fp32}}, SumCase{"", {bf16, bf16, fp32}},
        SumCase{fp8, {e4m3, e4m3, fp32}}, SumCase{fp8, {e4m3, cast_of("fp8_e5m2", true), fp32}},
        SumCase{mxfp4, {mxfp8, fp32, fp32}}})
    for (const char* backend : {"ref", "cpu"}) {
      SCOPED_TRACE(fmt::format("{} on {}", c.keys, backend));
      const LinearRecipe recipe = recipe_of(c.keys);
      const Outcome one = pass(recipe, c.wires, 1, backend);
      for (const int ranks : {2, 4}) {
        Outcome many = pass(recipe, c.wires, ranks, backend);
        many.activations = 0;
        EXPECT_TRUE(many.y == one.y) << ranks;
        EXPECT_TRUE(many.dx == one.dx) << ranks;
        EXPECT_TRUE(many.dup == one.dup) << ranks;
        EXPECT_TRUE(many.ddown == one.ddown) << ranks;
        EXPECT_TRUE(many.dbias == one.dbias) << ranks;
      }
    }
}

// A half block gathers x, dy and (in this test's one pass) not x again, and scatters y and dx.
TEST(TensorGroup, SendsAShareOfEveryCollective) {
  const Operand e4m3 = cast_of("fp8_e4m3");
  for (const int ranks : {2, 4}) {
    const Outcome many = pass(recipe_of(""), {e4m3, e4m3, cast_of("bf16")}, ranks, "cpu");
    const auto share = static_cast<uint64_t>(kGroupTokens * kGroupWidth / ranks * (ranks - 1));
    EXPECT_EQ(many.activations, share * (2 * 1 + 2 * 2)) << ranks;
    const Outcome narrow = pass(recipe_of(""), {e4m3, e4m3, e4m3}, ranks, "cpu");
    EXPECT_EQ(narrow.activations, share * (2 * 1 + 2 * 1)) << ranks;
  }
}

/// The sum of parts that ranks draw, all tokens of it; `parts` of each, by rank.
GroupValues sum_of(const Operand& wire, const std::vector<GroupValues>& parts,
                   const std::string& backend) {
  GroupValues sum(parts.front().size());
  const auto ranks = static_cast<int>(parts.size());
  run_ranks(ranks, [&](Comm& comm) {
    Run run(make_backend(backend, Threads{1}), 11, 0, &comm, ranks);
    const TokenSlice own = own_tokens(run, kGroupTokens);
    const GroupValues& mine = parts[static_cast<size_t>(comm.rank())];
    const auto body = [&] {
      const Tensor part = run.tensor(kGroupTokens, kGroupWidth, fp32_format());
      if (!run.recording()) run.upload(part.view().as<float>().data, std::span<const float>(mine));
      const Tensor y = sum_of_own_tokens(run, part, wire, fp32_format());
      if (run.recording()) return;
      const GroupValues rows = download(run.backend(), y.view());
      std::copy(rows.begin(), rows.end(), sum.begin() + own.first * kGroupWidth);
    };
    const Program program = run.record(body);
    run.reserve({&program});
    run.replay(program, body);
  });
  return sum;
}

// Integers of four bits are in every such format under one power of two; others are rounded once
// in each part, by at most half a unit of their last place and, below it, of the smallest
// element's; blocks whose scale is rounded down lose up to an eighth of their largest values.
TEST(TensorGroup, NarrowSumsAreThoseOfRoundedParts) {
  for (const char* backend : {"ref", "cpu"})
    for (const Operand& wire :
         {cast_of("fp8_e4m3", true), cast_of("mxfp8_e4m3"), cast_of("fp8_e4m3")}) {
      SCOPED_TRACE(fmt::format("{} on {}", describe(wire), backend));
      std::vector<GroupValues> parts;
      GroupValues want(kGroupTokens * kGroupWidth), bound = want;
      for (const bool is_exact : {true, false}) {
        if (is_exact && wire.scale == ScaleKind::fp32) continue;
        parts.clear();
        std::fill(want.begin(), want.end(), 0.0f);
        for (uint32_t rank = 0; rank < 4; ++rank) {
          parts.push_back(integers(kGroupTokens * kGroupWidth, 40 + rank, is_exact ? 7 : 1000));
          for (size_t i = 0; i < want.size(); ++i) {
            want[i] += parts.back()[i];
            const bool clips = wire.scale == ScaleKind::e8m0;
            bound[i] +=
                std::abs(parts.back()[i]) * (clips ? 0x1p-3f : 0x1p-4f) + 1000.0f / 448 * 0x1p-9f;
          }
        }
        const GroupValues sum = sum_of(wire, parts, backend);
        EXPECT_EQ(sum == want, is_exact);
        for (size_t i = 0; i < want.size() && !is_exact; ++i)
          EXPECT_LE(std::abs(sum[i] - want[i]), bound[i]) << i;
      }
    }
}

/// Codes and scales of what is gathered.
struct Stored8 {
  std::vector<std::byte> codes, scales;
  friend bool operator==(const Stored8&, const Stored8&) = default;
};

Stored8 gathered_bytes(const Operand& cast, int ranks) {
  Stored8 first;
  run_ranks(ranks, [&](Comm& comm) {
    Run run(make_backend("cpu", Threads{1}), 11, 0, &comm, ranks);
    const TokenSlice own = own_tokens(run, kGroupTokens);
    const GroupValues x = integers(kGroupTokens * kGroupWidth, 1, 1000);
    float* const data = run.persistent_values<float>("x", x.size());
    run.upload(data, std::span<const float>(x));
    const View all(reinterpret_cast<std::byte*>(data), fp32_format(), kGroupTokens, kGroupWidth,
                   kGroupWidth);
    Stored8 mine;
    const auto body = [&] {
      CastTensor stored;
      if (ranks == 1) {
        stored = cast_tensor(run, kGroupTokens, kGroupWidth, cast, MemoryKind::activations);
        run.execute(Store{{stored.view, cast}, all, {}});
      } else {
        stored = gathered(run, Source({}, all.slice(own.first, own.count), 3), cast).stored();
      }
      if (run.recording()) return;
      const auto bytes = [](const Tensor& of) {
        return std::vector<std::byte>(of.bytes(), of.bytes() + of.view().bytes());
      };
      mine = {bytes(stored.elements), bytes(stored.scales)};
    };
    const Program program = run.record(body);
    run.reserve({&program});
    run.replay(program, body);
    for (int rank = 0; rank < ranks; ++rank, comm.barrier()) {
      if (rank != comm.rank()) continue;
      if (rank == 0) first = mine;
      EXPECT_TRUE(mine == first) << rank;
    }
  });
  return first;
}

TEST(TensorGroup, GathersTheCodesAndScalesOfOneCast) {
  for (const Operand& cast : {cast_of("fp8_e4m3"), cast_of("fp8_e4m3", true), cast_of("fp8_e5m2"),
                              cast_of("mxfp8_e4m3"), cast_of("mxfp4"), cast_of("nvfp4")})
    for (const int ranks : {2, 4})
      EXPECT_TRUE(gathered_bytes(cast, ranks) == gathered_bytes(cast, 1)) << describe(cast);
}

TEST(TensorGroup, SlicesAreRunsOfPositions) {
  const auto text = [](const TokenSlice& slice, const Positions& at) {
    std::string runs;
    for_runs(slice, at, [&](const TokenRun& run) {
      runs += fmt::format("{}+{}: {}x{} from {}; ", run.tokens.first, run.tokens.count,
                          run.at.sequences, run.at.length, run.at.first);
    });
    return runs;
  };
  EXPECT_EQ(text({0, 12}, {2, 6, 0}), "0+12: 2x6 from 0; ");
  EXPECT_EQ(text({6, 6}, {2, 6, 0}), "6+6: 1x6 from 0; ");
  EXPECT_EQ(text({4, 4}, {1, 8, 0}), "4+4: 1x4 from 4; ");
  EXPECT_EQ(text({3, 9}, {3, 4, 0}), "3+1: 1x1 from 3; 4+8: 2x4 from 0; ");
  EXPECT_EQ(text({5, 10}, {4, 5, 0}), "5+10: 2x5 from 0; ");
  EXPECT_EQ(text({2, 5}, {3, 3, 7}), "2+1: 1x1 from 9; 3+3: 1x3 from 7; 6+1: 1x1 from 7; ");
}

}  // namespace
}  // namespace ng
