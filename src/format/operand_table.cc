#include "format/operand_table.h"

#include <algorithm>
#include <iterator>

#include "base/error.h"
#include "base/text.h"
#include "format/codec.h"
#include "format/exmy.h"
#include "format/operand_rows.h"
#include "format/operand_values.h"

namespace ng {
namespace {

using Kind = OperandKeyUse::Kind;
using Part = OperandKeyUse::Part;

/// What examples stand beside.
constexpr const char* kInBf16 = "format = \"bf16\"";
constexpr const char* kInFp8 = "format = \"fp8_e4m3\"";
constexpr const char* kInMxfp4 = "format = \"mxfp4\"";
constexpr const char* kInNvfp4 = "format = \"nvfp4\"";
constexpr const char* kInDelayedFp8 = "format = \"fp8_e4m3\", scaling = \"delayed\"";

/// The operands that are of GEMMs.
constexpr std::string_view kOfGemms[] = {"linear.fprop.input", "linear.fprop.weight",
                                         "linear.dgrad.grad",  "linear.dgrad.weight",
                                         "linear.wgrad.grad",  "linear.wgrad.input"};

constexpr KeyNeed kTensorScale = {
    "a tensor_scale", [](const Operand& o) { return o.tensor_scale != ScaleKind::none; }};

void add_element(OperandRows& rows) {
  rows.keys.push_back(
      {{{.path = "format",
         .expected = one_of(operand_names()),
         .doc = "sets all other keys of the operand to what the format stands for",
         .example = "\"mxfp4\""},
        [](Operand& o, const TomlItem& item) { o = operand_of(read_format_name(item)); },
        [](const Operand&) { return std::string(); }},
       {}});
  const KeyRow single = {
      .path = "element",
      .expected = fmt::format("{}, or any {}", one_of(operand_element_names()), kExmyNames),
      .doc = "format of one value",
      .equation = "value = element · scale of its block · scale of the tensor",
      .example = "\"e3m3\"",
      .beside = kInFp8};
  KeyRow row = single;
  row.expected += fmt::format("; in GEMMs, of e4m3 scales {}", kElementListExpected);
  row.doc += "; of a list each block takes the better one";
  row.type = "string or list";
  row.equation += "; of int4 in a list: 6/7 · element";
  rows.add(&Operand::element,
           {row,
            [](Operand& o, const TomlItem& item) {
              const Elements read = read_elements(item);
              o.element = read.first;
              o.other = read.other;
            },
            print_elements},
           {.field = "element",
            .list_places = {std::begin(kOfGemms), std::end(kOfGemms)},
            .single = single});
}

void add_scale(OperandRows& rows) {
  rows.own({.path = "block",
            .expected = std::string(kOperandBlockExpected),
            .doc = "values that share a scale: all, a row, or r rows of c values each, c along the "
                   "dimension that a GEMM sums over",
            .type = "string or list",
            .equation = "the scale follows from amax = max |x| of the block",
            .example = "[1, 32]",
            .beside = kInFp8},
           &Operand::block, read_operand_block, print_block,
           {.kind = Kind::block,
            .part = Part::scale,
            .field = "block",
            .flag = {4, "values that share a scale: RxC, tensor or row"}});
  using enum ScaleKind;
  constexpr ScaleKind kKinds[] = {none, fp32, pow2, e8m0, e4m3};
  rows.choice(
      "scale", &Operand::scale, named_choices<ScaleKind>(kKinds),
      "what a block's scale is written in",
      {.part = Part::scale, .field = "scale", .flag = {5, "none, fp32, pow2, e8m0 or e4m3"}});
  rows.equation("value = element · scale; pow2 and e8m0: scale = 2^e; e4m3: a number of E4M3");
  rows.beside(kInMxfp4);
  // The rule belongs to the scale: a new scale starts with its own default.
  rows.keys.back().read = [read = rows.keys.back().read](Operand& o, const TomlItem& item) {
    read(o, item);
    o.scale_rule = o.scale == e4m3 ? ScaleRule::nearest : ScaleRule::floor;
  };
  rows.choice("tensor_scale", &Operand::tensor_scale,
              named_choices<ScaleKind>(std::span(kKinds).first(3)),
              "second scale, of the whole tensor or of a tensor_block, above e4m3 scales",
              {.part = Part::scale,
               .field = "tensor_scale",
               .flag = {6, "second level: none, fp32 or pow2"}});
  rows.equation("tensor scale = amax of the tensor / (scale_max · fit)");
  rows.beside(kInNvfp4);
}

void add_tensor_block(OperandRows& rows) {
  rows.own({.path = "tensor_block",
            .expected = std::string(kTensorBlockExpected),
            .doc = "values that share a second scale: all, a row, or r rows of c values each",
            .type = "string or list",
            .equation = "scale of a region = amax of the region / (scale_max · fit)",
            .example = "[1, 128]",
            .beside = kInNvfp4},
           &Operand::tensor_block, read_tensor_block, print_block,
           {.kind = Kind::block,
            .part = Part::scale,
            .need = kTensorScale,
            .places = {std::begin(kOfGemms), std::end(kOfGemms)}});
}

void add_delayed(OperandRows& rows) {
  const KeyNeed delayed = {"scaling = \"delayed\"",
                           [](const Operand& o) { return o.scaling == Scaling::delayed; }};
  rows.choice<Scaling>("scaling", &Operand::scaling,
                       {{{"current", Scaling::current}, {"delayed", Scaling::delayed}}},
                       "scale from this tensor, or from the history of earlier steps",
                       {.part = Part::scale, .is_told_by_value = true});
  rows.beside(kInFp8);
  rows.equation("current: scale = amax now / fit; delayed: amax of earlier steps · 2^margin / fit");
  rows.integer("amax_history", &Operand::amax_history, {1, 65536},
               "steps that delayed scaling looks back", {.part = Part::scale, .need = delayed});
  rows.beside(kInDelayedFp8);
  rows.choice<AmaxCompute>("amax_compute", &Operand::amax_compute,
                           {{{"max", AmaxCompute::max}, {"most_recent", AmaxCompute::most_recent}}},
                           "which amax of the history delayed scaling uses",
                           {.part = Part::scale, .need = delayed});
  rows.beside(kInDelayedFp8);
  rows.integer("margin", &Operand::margin, {0, 32},
               "binades that delayed scaling leaves free at the top",
               {.part = Part::scale, .need = delayed});
  rows.beside(kInDelayedFp8);
  rows.equation("scale = 2^margin · amax of the history / fit");
}

void add_rule(OperandRows& rows) {
  rows.choice("scale_rule", &Operand::scale_rule, named_choices(scale_rules()),
              "how an e8m0 scale (floor ... mse) or an e4m3 scale (nearest, up) is rounded",
              {.part = Part::scale,
               .field = "scale_rule",
               .flag = {3, "E8M0: floor, rceil, ceil, even, mse; NVFP4: nearest, up"}});
  rows.equation(
      "scale = 2^e; floor: e = ⌊log2 amax⌋ - emax; rceil: least e with amax <= max · 2^e; ceil: "
      "e = ⌈log2 amax⌉ - emax; even: floor of amax rounded to the element's mantissa; mse: floor's "
      "e or e + 1, by the less squared error");
  rows.beside(kInNvfp4);
}

void add_scale_of(OperandRows& rows) {
  rows.choice<ScaleOf>(
      "scale_of", &Operand::scale_of,
      {{{"amax", ScaleOf::amax}, {"rms", ScaleOf::rms}, {"mean_abs", ScaleOf::mean_abs}}},
      "what of a block its scale is made of: the largest magnitude, the deviation from the mean, "
      "or "
      "the mean magnitude",
      {.part = Part::scale});
  rows.equation(
      "rms: t = 2.92247856 · √(mean (x - mean x)²) / max; mean_abs: t = mean |x|; "
      "scale = t, of e8m0 2^⌊log2 t⌋, rceil and ceil: 2^⌈log2 t⌉, even: the nearest in log2");
  rows.beside(kInMxfp4);
}

void add_fits(OperandRows& rows) {
  rows.own(
      {.path = "fit",
       .expected = std::string(kFitsExpected),
       .doc = "the number of the element's format that the largest magnitude of a block is "
              "scaled to, without it the format's largest; of a list each block takes the best",
       .type = "number or list",
       .equation = "scale = amax of the block / fit",
       .example = "[6, 4]",
       .beside = kInNvfp4},
      &Operand::fit, read_fits, print_fits,
      {.kind = Kind::numbers,
       .part = Part::scale,
       .field = "fit",
       .flag = {8, "what blocks' largest values are scaled to: A, or A,B to try"}});
  rows.choice<Select>(
      "select", &Operand::select,
      {{{"mse", Select::mse}, {"mae", Select::mae}, {"max", Select::max}}},
      "error by which a block takes one of its fits or elements: squared, absolute, or the largest",
      {.part = Part::scale,
       .field = "select",
       .flag = {9, "error by which a fit is taken: mse, mae or max"},
       .need = {"a list of fits or of elements",
                [](const Operand& o) { return o.fit.size() > 1 || o.other != nullptr; }}});
  rows.beside("format = \"nvfp4\", fit = [6, 4]");
  rows.equation(
      "of each block the fit, or element, with the least Σ(x̂ - x)², Σ|x̂ - x| or max |x̂ - x|");
  rows.number("scale_max", &Operand::scale_max, {1, 448},
              "e4m3 scale that the tensor's largest block is given; fits may need room above it",
              {.part = Part::scale,
               .field = "scale_max",
               .flag = {10, "e4m3 scale of the tensor's largest block"},
               .need = kTensorScale});
  rows.equation("tensor scale = amax of the tensor / (scale_max · fit)");
  rows.keys.back().example = "256";
  rows.beside(kInNvfp4);
}

void add_rounding(OperandRows& rows) {
  rows.choice<Rounding>("rounding", &Operand::rounding,
                        {{{"nearest", Rounding::nearest},
                          {"stochastic", Rounding::stochastic},
                          {"eden", Rounding::eden}}},
                        "how each element is rounded; eden: to nearest, and the scales of a "
                        "Hadamard group are corrected",
                        {.part = Part::rounding,
                         .field = "rounding",
                         .flag = {1, "nearest or stochastic", true},
                         .is_told_by_value = true});
  rows.beside(kInMxfp4);
  rows.equation(
      "x = (n + f) · ulp; nearest: n + 1 where f > 1/2; stochastic: with probability f; eden: "
      "scale = SR(scale · Σ y² / Σ y · ŷ) over a group y of the transform");
  rows.keys.back().example = "\"stochastic\"";
  rows.keys.back().values = {"nearest", "stochastic"};  // of casts; eden has GEMMs' transforms
  rows.own({.path = "sr_bits",
            .expected = "16, 8 or 32",
            .doc = "random bits of a stochastic rounding",
            .type = "integer",
            .equation = "probability of n + 1 = ⌊f · 2^sr_bits⌋ / 2^sr_bits",
            .example = "16",
            .beside = "format = \"mxfp4\", rounding = \"stochastic\""},
           &Operand::sr_bits, read_random_bits, [](int bits) { return print_value(int64_t{bits}); },
           {.kind = Kind::integer,
            .part = Part::rounding,
            .values = {"8", "16", "32"},
            .field = "random_bits",
            .flag = {7, "random bits per value", true},
            .need = {"rounding = \"stochastic\" or \"eden\"",
                     [](const Operand& o) { return o.rounding != Rounding::nearest; }}});
}

/// What becomes of values that an element cannot hold, and how they are kept from that.
void add_range(OperandRows& rows) {
  rows.choice<Overflow>(
      "overflow", &Operand::overflow,
      {{{"saturate", Overflow::saturate}, {"special", Overflow::special}}},
      "values beyond the format's largest number become that number (saturate), or infinity, "
      "else NaN, where the format has one (special)",
      {.part = Part::rounding,
       .field = "overflow",
       .flag = {2,
                "saturate, or special: infinities and NaN (special only for bf16, else saturate)",
                true}});
  rows.keys.back().example = "\"saturate\"";
  rows.beside(kInBf16);
  rows.choice<Subnormals>(
      "subnormals", &Operand::subnormals,
      {{{"keep", Subnormals::keep}, {"flush", Subnormals::flush}}},
      "what becomes of elements below the least normal one: they, or zero",
      {.part = Part::rounding,
       .field = "subnormals",
       .flag = {11, "elements below the least normal one: keep, or flush to zero", true},
       .need = {"an element with subnormals",
                [](const Operand& o) { return has_subnormals(*o.element); }}});
  rows.equation("flush: round(x / scale) where that is 0 or at least 2^(1 - bias), else 0");
  rows.keys.back().example = "\"flush\"";
  rows.beside(kInMxfp4);
  rows.number("prescale", &Operand::prescale, {0x1p-16, 0x1p16},
              "multiplies each value after its scale was chosen; undone at the end of the GEMM",
              {.part = Part::rounding, .field = "prescale"});
  rows.equation(
      "x̂ = scale · round(prescale · x / scale); "
      "the product is divided by the prescales");
  rows.keys.back().example = "0.75";
}

void add_from(OperandRows& rows) {
  rows.choice<From>("from", &Operand::from,
                    {{{"original", From::original}, {"fprop", From::fprop}}},
                    "what a backward operand is made of: the tensor, or what the forward GEMM read "
                    "of it",
                    {.places = {"linear.dgrad.weight", "linear.wgrad.input"}});
  rows.equation("fprop: Q(x̂) in place of Q(x), x̂ the forward operand's values");
  rows.keys.back().example = "\"fprop\"";
  rows.beside(kInNvfp4);
}

void add_gradient(OperandRows& rows) {
  const std::vector<std::string_view> places = {"linear.fprop.input", "linear.fprop.weight"};
  const KeyNeed dge = {"gradient = \"dge\"",
                       [](const Operand& o) { return o.gradient == RoundingGradient::dge; }};
  rows.choice<RoundingGradient>("gradient", &Operand::gradient,
                                {{{"straight", RoundingGradient::straight},
                                  {"clip", RoundingGradient::clip},
                                  {"dge", RoundingGradient::dge}}},
                                "what of the gradient the rounding lets through: all, what was not "
                                "clipped, or as the slope of a smooth staircase",
                                {.places = places});
  rows.equation(
      "u = prescale · x / scale; clip: 1 where |u| < the largest element, else 0; dge: "
      "min(|2 (|u| - lo) / δ - 1|^(1/dge_k - 1) / dge_k, dge_max), δ from lo to the next element");
  rows.keys.back().example = "\"clip\"";
  rows.beside(kInMxfp4);
  rows.number("dge_k", &Operand::dge_k, {1, 100}, "how steep the stairs of dge are",
              {.need = dge, .places = places});
  rows.beside("format = \"mxfp4\", gradient = \"dge\"");
  rows.number("dge_max", &Operand::dge_max, {0.01, 1000}, "dge's largest factor",
              {.need = dge, .places = places});
  rows.beside("format = \"mxfp4\", gradient = \"dge\"");
}

}  // namespace

const std::vector<OperandKey>& operand_keys() {
  static const std::vector<OperandKey> keys = [] {
    OperandRows rows;
    add_element(rows);
    add_scale(rows);
    add_tensor_block(rows);
    add_delayed(rows);
    add_rule(rows);
    add_scale_of(rows);
    add_fits(rows);
    add_rounding(rows);
    add_range(rows);
    add_from(rows);
    add_gradient(rows);
    add_state_keys(rows);
    return rows.keys;
  }();
  return keys;
}

std::vector<const OperandKey*> cast_flags() {
  std::vector<const OperandKey*> flags;
  for (const OperandKey& key : operand_keys())
    if (key.flag.place > 0) flags.push_back(&key);
  std::sort(flags.begin(), flags.end(),
            [](const OperandKey* a, const OperandKey* b) { return a->flag.place < b->flag.place; });
  return flags;
}

void forget_unused(Operand& operand) {
  for (const OperandKey& key : operand_keys())
    if (!key.has_effect(operand)) key.forget(operand);
}

}  // namespace ng
