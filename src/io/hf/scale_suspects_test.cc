#include "io/hf/scale_suspects.h"

#include <gtest/gtest.h>

#include <deque>

namespace ng::io {
namespace {

using Sizes = std::vector<int64_t>;

/// Codes (4, 8) of a name, and tensors of FP32 beside them.
class Suspicion {
 public:
  explicit Suspicion(const std::string& codes) : codes_(add(codes, "F8_E4M3", {4, 8})) {}
  Suspicion(const Suspicion&) = delete;
  Suspicion& operator=(const Suspicion&) = delete;
  ~Suspicion() = default;

  Suspicion& beside(const std::string& name, Sizes shape, const std::string& dtype = "F32") {
    (void)add(name, dtype, std::move(shape));
    return *this;
  }
  /// The name of the first; "" where there is none.
  [[nodiscard]] std::string found(const std::string& known = "") const {
    const ScaleSuspects suspects(tensors_);
    const auto is_known = [&](const std::string& name) { return name == known; };
    const SafetensorsEntry* entry = suspects.of(codes_, codes_.name, is_known);
    return entry == nullptr ? "" : entry->name;
  }

 private:
  const SafetensorsEntry& add(const std::string& name, const std::string& dtype, Sizes shape) {
    SafetensorsEntry& entry = entries_.emplace_back();
    entry.name = name;
    entry.dtype = dtype;
    entry.shape = std::move(shape);
    tensors_.emplace(name, &entry);
    return entry;
  }

  std::deque<SafetensorsEntry> entries_;
  EntriesByName tensors_;
  const SafetensorsEntry& codes_;
};

TEST(ScaleSuspects, AreFoundByWhereTheirNamesStand) {
  struct Case {
    std::string codes, scale;
    Sizes shape;
  };
  const Case kCases[] = {{"l.q.weight", "l.q.weight_dequant_multiplier", {}},
                         {"l.q.weight", "l.q.w_s", {4, 1}},
                         {"l.q.weight", "l.q.w_s", {2, 2}},  // blocks
                         {"l.x.weight", "l.scale_x.weight", {1}},
                         {"l.q_proj.weight", "l.q_proj_mult", {4}},
                         {"w1", "w1_s", {}},
                         {"e.w1", "e.w1_s", {4, 1}},
                         {"e.w1", "e.inv_w1", {1, 8}},
                         {"l.q.weight", "scales.l.q.weight", {1}},
                         {"l.q.weight", "scales.l.q", {1}},
                         {"l.q.weight", "l.scaling.q", {7}},
                         {"l.q.weight", "fp8_scales", {}}};
  for (const Case& c : kCases)
    EXPECT_EQ(Suspicion(c.codes).beside(c.scale, c.shape).found(), c.scale) << c.codes;
  for (const Case& c : kCases) {
    Suspicion two(c.codes);
    two.beside(c.scale, c.shape).beside(c.codes + "_scale", {});
    EXPECT_EQ(two.found(c.codes + "_scale"), c.scale) << c.codes;
  }
  EXPECT_EQ(Suspicion("l.q.weight").beside("l.q.s", {4, 1}, "F8_E8M0").found(), "l.q.s");
}

// By their names or by their shapes.
TEST(ScaleSuspects, WhatStandsBesideMatricesIsNone) {
  Suspicion matrix("l.q.weight");
  matrix.beside("l.q.bias", {4}).beside("l.q_norm.weight", {4}).beside("l.q.lora_A", {1, 8});
  matrix.beside("l.q.table", {3}).beside("l.q.twin", {4, 8}).beside("l.q.mask", {4}, "BOOL");
  matrix.beside("l.qkv.weight", {1}).beside("l.attn.k_scale", {1}).beside("l.prob_scale", {1});
  matrix.beside("l1.q.s", {1});
  EXPECT_EQ(matrix.found(), "");
  EXPECT_EQ(Suspicion("net.0.weight").beside("net.1.0.weight", {4}).found(), "");
}

}  // namespace
}  // namespace ng::io
