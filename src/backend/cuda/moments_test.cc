// Moments, and weights in blocks, that go through FP32 some rows at a time, in scratch with room
// for few, against `ref`, to the bit, in several orders of threads.
#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include "backend/cuda/kernels/perform.h"
#include "backend/ref/ref_backend.h"
#include "conformance/stored_casts.h"
#include "support/prepared_operand.h"
#include "support/stored_tensor.h"

namespace ng::cuda {
namespace {

using conformance::cast_of;
using conformance::in_blocks;
using emulated::Device;

constexpr uint64_t kMomentOrders[] = {0, 1, 2};
constexpr int64_t kMomentRows = 19, kMomentCols = 70;

Operand mapped(bool is_positive) {
  Operand cast = in_blocks("int8", 1, 32);
  cast.map = CodeMap::dynamic;
  cast.is_positive = is_positive;
  return cast;
}
Operand expanded() {
  Operand cast = in_blocks("fp8_e4m3", 1, 32);
  cast.expand = true;
  return cast;
}
Operand in_parts() {
  Operand cast = cast_of("bf16");
  cast.parts = 2;
  return cast;
}

struct MomentsCase {
  const char* name;
  Operand moment1, moment2;
  int64_t height = 1;  ///< of the blocks
  Operand weight = cast_of("fp32");
  UpdateRule rule = UpdateRule::nearest;
  bool feeds_back = false;
  Operand master{};  ///< no element: none
};

std::vector<MomentsCase> moments_cases() {
  const Operand fp32 = cast_of("fp32"), fp8 = conformance::scaled_by_power("fp8_e4m3");
  return {{"by maps", mapped(false), mapped(true)},
          {"expanded, the second in FP32", expanded(), fp32},
          {"in parts, the first in FP32", fp32, in_parts()},
          {"of two levels", cast_of("nvfp4"), cast_of("nvfp4")},
          {"of two levels beside a map", in_blocks("nvfp4", 16, 16), mapped(true), 16},
          {"by maps beside a weight of one scale", mapped(false), expanded(), 1, fp8},
          {"by maps, precision aware", mapped(false), mapped(true), kMomentRows, cast_of("bf16"),
           UpdateRule::precision_aware},
          {"of weights in blocks", fp32, fp32, 1, cast_of("mxfp4"), UpdateRule::stochastic},
          {"beside weights of two levels", mapped(false), fp32, 16, in_blocks("nvfp4", 16, 16)},
          {"with feedback from weights in blocks", cast_of("nvfp4"), fp32, 1, cast_of("nvfp4"),
           UpdateRule::stochastic, true},
          {"with feedback into one scale", fp8, mapped(true), 1, cast_of("mxfp6_e2m3"),
           UpdateRule::nearest, true},
          {"beside blocks of a master", fp32, expanded(), 1, cast_of("mxfp4"), UpdateRule::nearest,
           false, fp32},
          {"beside two levels of a master of one scale", fp32, fp32, 16, in_blocks("nvfp4", 16, 16),
           UpdateRule::nearest, false, conformance::scaled_by_power("fp16")}};
}

/// A tensor's weight and moments, and what is done with them.
class UpdatedMoments {
 public:
  UpdatedMoments(Backend& memory, const MomentsCase& of)
      : value_(memory, of.weight, kMomentRows, kMomentCols),
        moment1_(memory, of.moment1, kMomentRows, kMomentCols),
        moment2_(memory, of.moment2, kMomentRows, kMomentCols),
        master_(memory, of.master.element != nullptr ? of.master : of.weight, kMomentRows,
                kMomentCols),
        start_(ref::normals(kMomentRows * kMomentCols, 1)),
        grad_(ref::normals(kMomentRows * kMomentCols, 2)) {
    for (size_t i = 0; i < grad_.size(); ++i) grad_[i] *= pow2(-static_cast<int>(i % 13));
    const Store store{
        .y = value_.stored(), .x = ref::view_of(start_, kMomentRows, kMomentCols), .key = {}};
    memory.execute(store);
    op_.weight.value = value_.stored();
    op_.weight.rule = of.rule;
    op_.weight.momentum_feedback = of.feeds_back;
    if (of.master.element != nullptr) {
      op_.weight.master = master_.stored();
      memory.execute(Store{.y = master_.stored(), .x = value_.view(), .key = {}});
    }
    op_.moment1 = moment1_.stored();
    op_.moment2 = moment2_.stored();
    op_.grad = ref::view_of(grad_, kMomentRows, kMomentCols);
    op_.numbers = {.lr = 2e-2f,
                   .beta1 = 0.9f,
                   .beta2 = 0.95f,
                   .eps = 1e-8f,
                   .weight_decay = 0.1f,
                   .correction1 = 0.271f,
                   .correction2 = 0.142625f};
    op_.key = {.seed = 11, .tensor = 4, .step = 3};
    op_.control = &control_;
    op_.report = &report_;
  }
  UpdatedMoments(const UpdatedMoments&) = delete;
  UpdatedMoments& operator=(const UpdatedMoments&) = delete;

  /// Three updates, of which the third is skipped, then the largest values of a fourth and whether
  /// it overflows.
  template <class Perform>
  void run(const Perform& perform) {
    for (int step = 0; step < 3; ++step) {
      control_.skip = step == 2 ? 1 : 0;
      perform(op_);
    }
    control_.skip = 0;
    perform(FindUpdateMaxima{.update = op_, .maxima = &maxima_});
    grad_[12 * kMomentCols + 3] = 3e38f;  // of whose square there is no FP32
    perform(CheckUpdate{.update = op_, .control = &control_, .parameter = 7});
  }
  void expect_like(const UpdatedMoments& other) const {
    expect_same(value_, other.value_, "value");
    if (op_.weight.master) expect_same(master_, other.master_, "master");
    expect_same(moment1_, other.moment1_, "moment1");
    expect_same(moment2_, other.moment2_, "moment2");
    EXPECT_EQ(report_.changed, other.report_.changed);
    EXPECT_EQ(report_.alpha, other.report_.alpha);
    EXPECT_EQ(maxima_.weight, other.maxima_.weight);
    EXPECT_EQ(maxima_.moment1, other.maxima_.moment1);
    EXPECT_EQ(maxima_.moment2, other.maxima_.moment2);
    EXPECT_EQ(control_.overflowing, StoredState::moment2);
    EXPECT_EQ(other.control_.overflowing, StoredState::moment2);
  }

 private:
  static void expect_same(const StoredTensor& a, const StoredTensor& b, const char* name) {
    SCOPED_TRACE(name);
    if (a.stored().cast.element->bits == 32) {
      EXPECT_EQ(a.floats(), b.floats());
      return;
    }
    EXPECT_EQ(a.codes(), b.codes());
    EXPECT_EQ(a.scale_bytes(), b.scale_bytes());
    EXPECT_EQ(a.other_bytes(), b.other_bytes());
    const float* level = a.view().scales.tensor;
    if (level != nullptr) {
      EXPECT_EQ(*level, *b.view().scales.tensor);
    }
  }

  StoredTensor value_, moment1_, moment2_, master_;
  std::vector<float> start_, grad_;
  StepControl control_{.grad_norm = 1e30, .grad_scale = 0.37f};
  UpdateReport report_;
  UpdateMaxima maxima_;
  Update op_;
};

TEST(CudaMoments, InStripsOfAnyHeightAreThoseOfRef) {
  const auto ref = make_ref_backend(Threads{1});
  for (const MomentsCase& of : moments_cases()) {
    SCOPED_TRACE(of.name);
    UpdatedMoments by_ref(*ref, of);
    by_ref.run([&](const auto& op) { ref->execute(op); });
    const size_t beside = 1024 + kMomentRows * sizeof(UpdateReport);
    for (const int64_t rows : {of.height, int64_t{3} * of.height, int64_t{1000}})
      for (const uint64_t order : kMomentOrders) {
        SCOPED_TRACE(std::to_string(rows) + " rows, order " + std::to_string(order));
        Device device(card_of(90), order);
        std::vector<double> scratch(beside / sizeof(double) +
                                    static_cast<size_t>(rows * kMomentCols));
        const Scratch room{reinterpret_cast<std::byte*>(scratch.data()),
                           scratch.size() * sizeof(double)};
        UpdatedMoments p(*ref, of);
        p.run([&](const auto& op) { perform(&device, op, room); });
        p.expect_like(by_ref);
      }
  }
}

TEST(CudaMoments, ReadAsMomentumAndAsTheyAreInStripsAreThoseOfRef) {
  const auto ref = make_ref_backend(Threads{1});
  const std::vector<float> x = ref::normals(kMomentRows * kMomentCols, 5),
                           grad = ref::normals(kMomentRows * kMomentCols, 6);
  const auto view = [](std::vector<float>& values) {
    return View(values.data(), kMomentRows, kMomentCols, kMomentCols);
  };
  for (const Operand& cast : {mapped(false), expanded(), in_parts()}) {
    StoredTensor momentum(*ref, cast, kMomentRows, kMomentCols);
    ref->execute(
        Store{.y = momentum.stored(), .x = ref::view_of(x, kMomentRows, kMomentCols), .key = {}});
    const auto results = [&](const auto& perform) {
      std::vector<float> sum(x.size()), ahead(x.size()), values(x.size());
      perform(MoveMomentum{.sum = view(sum),
                           .ahead = view(ahead),
                           .momentum = momentum.view(),
                           .grad = ref::view_of(grad, kMomentRows, kMomentCols),
                           .mu = 0.95f});
      perform(Store{.y = stored_plainly(view(values)), .x = momentum.view(), .key = {}});
      sum.insert(sum.end(), ahead.begin(), ahead.end());
      sum.insert(sum.end(), values.begin(), values.end());
      return sum;
    };
    const std::vector<float> want = results([&](const auto& op) { ref->execute(op); });
    for (const uint64_t order : kMomentOrders) {
      Device device(card_of(90), order);
      std::vector<float> scratch(4 * kMomentCols);  // four rows
      const Scratch room{reinterpret_cast<std::byte*>(scratch.data()),
                         scratch.size() * sizeof(float)};
      EXPECT_EQ(results([&](const auto& op) { perform(&device, op, room); }), want);
    }
  }
}

}  // namespace
}  // namespace ng::cuda
