// The keys that optimizers' states have beyond those of operands. [linear.md 9]
#include <limits>

#include "base/text.h"
#include "format/operand_rows.h"
#include "format/operand_values.h"

namespace ng {
namespace {

using Kind = OperandKeyUse::Kind;

constexpr int64_t kMostMinSize = std::numeric_limits<int>::max();

void add_state(OperandRows& rows) {
  const std::vector<std::string_view> places(kStateOperands.begin(), kStateOperands.end());
  rows.choice<CodeMap>(
      "map", &Operand::map, {{{"none", CodeMap::none}, {"dynamic", CodeMap::dynamic}}},
      "what codes of int8 stand for: their numbers, or 256 values that lie closer the smaller they "
      "are, in moment2 none below zero",
      {.places = places});
  rows.equation(
      "dynamic: scale · 0, ± (0.1 + 0.45 · (2j + 1) / n) · 10^(i - 6) or 1; i = 0 ... 6, n = 2^i, "
      "2^(i + 1) of one sign, j < n; scale = amax of the block");
  rows.keys.back().example = "\"dynamic\"";
  rows.beside("format = \"int8\", block = [1, 256]");
  rows.add(&Operand::expand,
           boolean_key<Operand>("expand", member_of(&Operand::expand),
                                "whether a power of each block's values is stored, by which they "
                                "fill the range of e4m3"),
           {.kind = Kind::boolean, .places = places});
  rows.equation(
      "x = ± (|q| · scale)^(1/k) · c; c = √(M · μ), k = ⌊16 · log2 100352 / log2(M / μ)⌋ / 16, M "
      "and μ the largest and the smallest magnitude of the block, not counting 0, + 1e-30");
  rows.beside("format = \"fp8_e4m3\", block = [1, 128]");
  rows.integer("parts", &Operand::parts, {1, 2},
               "numbers of bf16 that stand for a value: it rounded, and what that lost",
               {.places = places});
  rows.equation("2: x = hi + lo, hi = BF16(x), lo = BF16(x - hi)");
  rows.keys.back().example = "2";
  rows.beside("format = \"bf16\"");
}

/// Which of them are too small for it.
void add_min_size(OperandRows& rows) {
  rows.own(
      {.path = "min_size",
       .expected = text_of(IntegerRange{0, kMostMinSize}),
       .doc = "moments of fewer values are FP32; without it 4096, in narrowgauge update 0",
       .type = "integer",
       .example = "4096",
       .beside = "format = \"bf16\""},
      &Operand::min_size,
      [](const TomlItem& item) {
        return static_cast<int>(read_integer(item, {0, kMostMinSize}));
      },
      [](int size) { return size == Operand::kNoMinSize ? "" : print_value(int64_t{size}); },
      {.kind = Kind::integer,
       .need = {"a format narrower than fp32", [](const Operand& o) { return !o.is_fp32(); }},
       .places = {kStateOperands.begin(), kStateOperands.end()}});
}

}  // namespace

void add_state_keys(OperandRows& rows) {
  add_state(rows);
  add_min_size(rows);
}

}  // namespace ng
