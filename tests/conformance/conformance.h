// The conformance suite: every backend against `ref`, on every instruction set, with several thread
// counts. A test states once how to run an operation and by how much results may differ; the
// comparison and the list of targets are here, the strided and unaligned memory is in memory.h.
#pragma once

#include <fmt/core.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <functional>
#include <iterator>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "backend/ref/ref_backend.h"
#include "base/isa.h"
#include "base/sanitized_testing.h"
#include "memory.h"
#include "run/backends.h"

namespace ng::conformance {

constexpr double kUnit = 0x1p-24;  ///< largest relative error of one FP32 rounding

/// What an operation left behind, by name.
using Results = std::map<std::string, Matrix>;
using Run = std::function<Results(const Place&)>;
/// Largest allowed |difference| of one element; 0 asks for the same bits.
using Bound = std::function<double(const std::string& name, int64_t row, int64_t col)>;

inline double exactly(const std::string&, int64_t, int64_t) { return 0; }

/// Each CUDA thread of it is a fiber: slow, so that it takes part in fewer calls than `cpu`.
constexpr std::string_view kEmulatedCard = "cuda-emulated";

/// Emulated or real.
inline bool is_card(std::string_view backend) { return backend.starts_with("cuda"); }
inline bool is_emulated(std::string_view backend) { return backend.starts_with(kEmulatedCard); }
/// A card that multiplies by matrix units, within a bound; all else it has in common with one that
/// does not.
inline bool has_units(std::string_view backend) {
  return backend == "cuda" || backend.starts_with("cuda-emulated-units");
}

/// Those but `ref` that this machine can run: of a card's the one by units needs cuBLASLt.
inline const std::vector<std::string>& compared_backends() {
  static const std::vector<std::string> found = [] {
    std::vector<std::string> names;
    for (const std::string_view name : backend_names())
      if (name != "ref") try {
          (void)make_backend(name, {1});
          names.emplace_back(name);
        } catch (const Error& missing) {
          fmt::print("not compared: {}\n", missing.what());
        }
    return names;
  }();
  return found;
}

/// One way of running a backend.
struct Target {
  std::string backend;
  Isa isa = Isa::scalar;
  int threads = 1;
  [[nodiscard]] std::string label() const {
    return fmt::format("{} {} threads={}", backend, name_of(isa), threads);
  }
};

/// Every backend but ref on these instruction sets: the strongest with 1 and 3 threads, the others
/// with 3. An emulated card has none, and threads - 1 is the seed of the order in which CUDA
/// threads go on.
inline std::vector<Target> targets(const std::vector<Isa>& isas = supported_isas()) {
  std::vector<Target> all;
  const Isa strongest = isas.back();
  for (const std::string& name : compared_backends()) {
    for (const Isa isa : isas)
      if (isa == strongest || name == "cpu") all.push_back({name, isa, 3});
    all.push_back({name, strongest, 1});
  }
  return all;
}

/// The same but for cards with matrix units: where nothing of BF16 or fewer bits is multiplied
/// these run the kernels of the card without.
inline std::vector<Target> targets_without_units(const std::vector<Isa>& isas = supported_isas()) {
  std::vector<Target> all = targets(isas);
  std::erase_if(all, [](const Target& target) { return has_units(target.backend); });
  return all;
}

/// What takes part in a call of `conform`.
struct Turns {
  int card_every = 1;  ///< an emulated card does in one of so many calls
  /// Whether what is called multiplies matrices: on every instruction set then. Else those that
  /// differ from a tested one in products alone take turns: how panels lie for them, these show.
  bool multiplies = false;
};
constexpr Turns kProducts{.multiplies = true};
constexpr Turns kProductsOfGrids{.card_every = 3, .multiplies = true};

/// The instruction sets of a call: tested_isas() and another one.
inline std::vector<Isa> isas_in_turn(int call) {
  std::vector<Isa> isas = tested_isas(), others;
  std::ranges::set_difference(supported_isas(), isas, std::back_inserter(others));
  if (others.empty()) return isas;
  // Drawn, so that no inner loop of a test keeps always the same.
  const uint32_t turn = static_cast<uint32_t>(call) * 0x9E3779B9u >> 16;
  isas.push_back(others[turn % others.size()]);
  std::ranges::sort(isas);
  return isas;
}

/// The targets of one call of `conform`. Two threads are taken every sixteenth time only: what one
/// and three threads agree on, two do as well, and another backend's turn costs a third more. An
/// emulated card goes on in one order of threads after the other, and in every fourth of its calls
/// in two, which are compared. Sanitizers make its fibers slow.
inline std::vector<Target> targets_of_next_call(const Turns& turns) {
  const int card_every = turns.card_every * (kSanitized ? 8 : 1);
  static int calls = 0;
  const int call = calls++, turn = call / card_every;
  std::vector<Target> all = targets(turns.multiplies ? supported_isas() : isas_in_turn(call));
  if (call % 16 == 0)
    for (const std::string& name : compared_backends())
      all.push_back({name, supported_isas().back(), 2});
  std::erase_if(all, [&](const Target& target) {
    if (!is_emulated(target.backend)) return false;
    if (call % card_every != 0) return true;
    return target.threads != 2 && turn % 4 != 0 && target.threads != (turn % 2 == 0 ? 3 : 1);
  });
  return all;
}

/// Backends are kept between tests: taking their scratch is slow.
inline Backend& backend_of(const Target& target) {
  static std::map<std::string, std::unique_ptr<Backend>> made;
  force_isa(target.isa);
  auto& backend = made[fmt::format("{} {}", target.backend, target.threads)];
  const bool has_order = is_emulated(target.backend);
  if (!backend)
    backend = make_backend(target.backend, Threads{target.threads},
                           has_order ? static_cast<uint64_t>(target.threads - 1) : 0);
  return *backend;
}

inline Backend& reference() {
  static const std::unique_ptr<Backend> ref = make_ref_backend(Threads{1});
  return *ref;
}

inline bool same_bits(float a, float b) {
  return std::bit_cast<uint32_t>(a) == std::bit_cast<uint32_t>(b) ||
         (std::isnan(a) && std::isnan(b));
}

/// Of numbers whose bits differ; a bound of 0 asks for the same bits.
inline bool near(float got, float want, double bound) {
  return bound > 0 && std::isfinite(got) && std::isfinite(want) &&
         std::abs(static_cast<double>(got) - want) <= bound;
}

/// Whether all had the same bits.
inline bool compare(const Results& got, const Results& want, const Bound& bound) {
  bool same = true;
  for (const auto& [name, expected] : want) {
    const Matrix& actual = got.at(name);
    EXPECT_TRUE(actual.guards_intact) << name << ": wrote outside its view";
    int64_t wrong = 0;
    for (int64_t r = 0; r < expected.rows(); ++r)
      for (int64_t c = 0; c < expected.cols(); ++c) {
        const float have = actual.at(r, c), wanted = expected.at(r, c);
        if (same_bits(have, wanted)) continue;
        same = false;
        const double allowed = bound(name, r, c);
        if (near(have, wanted, allowed) || ++wrong > 3) continue;
        ADD_FAILURE() << fmt::format("{}[{}][{}] = {} instead of {}: off by {:.3g}, allowed {:.3g}",
                                     name, r, c, have, wanted, static_cast<double>(have) - wanted,
                                     allowed);
      }
    EXPECT_LE(wrong, 3) << name << ": and " << wrong - 3 << " more";
  }
  return same;
}

/// The definition of BF16: `stored`, results of ref in BF16, are those of FP32 storage with rounded
/// inputs, rounded once more where BF16 is stored.
inline void expect_rounded(const Results& stored, Results fp32) {
  for (auto& [name, result] : fp32)
    if (stored.at(name).element == &bf16_format()) result = result.rounded_to_bf16();
  SCOPED_TRACE("ref in BF16 against its FP32 rounded");
  compare(stored, fp32, exactly);
}

/// Every target against ref within `bound`, and all targets of one backend the same bits; those
/// with units only where `of_units` makes a bound for their products.
inline void conform(const std::string& operation, Storage storage, const Run& run,
                    const Bound& bound = exactly, const Turns& turns = {},
                    const std::function<Bound(const Target&)>& of_units = {}) {
  if (is_left_out()) return;
  SCOPED_TRACE(fmt::format("{}, {}", operation, name_of(storage)));
  const Results want = run({reference(), storage});
  if (storage == Storage::bf16) expect_rounded(want, run({reference(), Storage::rounded}));
  std::map<std::string, Results> first;
  std::string missing;
  for (const Target& target : targets_of_next_call(turns)) {
    if (has_units(target.backend) && !of_units) continue;
    SCOPED_TRACE(target.label());
    try {
      Table::of_all().begin_call();
      const Results got = run({backend_of(target), storage});
      const Bound allowed = has_units(target.backend) ? of_units(target) : bound;
      Table::of_all().end_call(target.backend, compare(got, want, allowed));
      const auto [known, added] = first.try_emplace(target.backend, got);
      if (!added) compare(got, known->second, exactly);
    } catch (const Unsupported& lack) {
      if (is_card(target.backend)) throw;  // it lacks nothing of what is compared
      missing = lack.what();
    }
    if (testing::Test::HasFailure()) break;
  }
  force_isa(supported_isas().back());
  if (!missing.empty()) GTEST_SKIP() << missing;
}
inline void conform(const std::string& operation, const Run& run, const Bound& bound = exactly) {
  conform(operation, Storage::fp32, run, bound);
}

/// Room for rounding an output to BF16: two values `difference` apart round at most one BF16 step
/// (2^-7 of the value) further apart.
inline double with_bf16(double difference, float value, Storage storage) {
  if (storage == Storage::fp32) return difference;
  return difference + 0x1p-7 * (std::abs(static_cast<double>(value)) + difference);
}

/// Longest chain of additions in an FP32 sum of n terms: 16 lanes, chunks of 4096, folds, with room
/// for the roundings of the terms. [recipes.md §0]
inline double depth_of_sum(int64_t n) {
  return static_cast<double>(std::min<int64_t>(n, 4096)) / 16 + 12;
}

/// Rows, columns, and how they lie in memory.
struct Shape {
  int64_t rows, cols, padding, shift;
  [[nodiscard]] Matrix matrix() const { return {rows, cols, padding, shift}; }
  [[nodiscard]] std::string text() const {
    return fmt::format("{}x{} padding {} shift {}", rows, cols, padding, shift);
  }
};

/// Odd sizes on both sides of whole vectors, dense and strided, aligned and not.
constexpr Shape kShapes[] = {{1, 1, 0, 0},   {3, 7, 0, 1},   {5, 16, 3, 0},   {4, 33, 0, 0},
                             {2, 64, 16, 5}, {7, 129, 1, 3}, {33, 257, 0, 0}, {1, 4099, 0, 2}};

}  // namespace ng::conformance
