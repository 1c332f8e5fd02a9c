#include "cli/formats/block.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "cli/formats/bits.h"
#include "cli/formats/rounding.h"
#include "cli/output.h"
#include "format/cast_names.h"
#include "format/codec.h"
#include "format/packing.h"
#include "format/scale.h"
#include "numbers/narrow_matrix.h"

namespace ng::cli {
namespace {

constexpr size_t kMostValues = 256;  // of a tensor or row
const std::string kNoScale = "s = 1: amax is 0 or not finite";

/// Largest |x|, NaN skipped.
float amax_of(const std::vector<float>& x) {
  float amax = 0;
  for (const float v : x) amax = std::fmax(amax, std::fabs(v));
  return amax;
}

bool all_finite(const std::vector<float>& x) {
  return std::all_of(x.begin(), x.end(), [](float v) { return std::isfinite(v); });
}

/// The values in the numbers of `cast`; `amax` stands behind their block where it is that of a
/// larger tensor.
NarrowMatrix narrow_of(std::vector<float> x, const Operand& cast, float amax = 0) {
  if (amax > amax_of(x)) {
    if (cast.block.kind == Block::Kind::tile) x.resize(static_cast<size_t>(cast.block.cols), 0.0f);
    x.push_back(amax);
  }
  const auto count = static_cast<int64_t>(x.size());
  return quantize({x.data(), 1, count, count}, cast, {}, Threads{1});
}

/// The elements of `x` on their way; `scaled` is what of a value is rounded.
template <class Scaled>
BlockWay way_of(const std::vector<float>& x, const NarrowMatrix& narrow, const Scaled& scaled) {
  BlockWay way;
  way.element = narrow.cast.element;
  const std::vector<float> values = dequantize(narrow, Threads{1});
  for (size_t i = 0; i < x.size(); ++i)
    way.elements.push_back(
        {.x = x[i], .y = scaled(x[i]), .code = narrow.codes[i], .value = values[i]});
  return way;
}

// ---------------------------------------------------------------- E8M0 [formats.md §3]

struct PowerRule {
  ScaleRule rule;
  const char* formula;
};
constexpr PowerRule kPowerRules[] = {
    {ScaleRule::floor, "floor(log2 amax) - emax"},
    {ScaleRule::rceil, "least e with amax <= largest x 2^e"},
    {ScaleRule::ceil, "ceil(log2 amax) - emax"},
    {ScaleRule::even, "floor(log2(amax rounded to the element's mantissa)) - emax"},
    {ScaleRule::mse, "of floor's e and e + 1 the one with less squared error"}};

BlockWay power_way(const std::vector<float>& x, const NarrowMatrix& narrow) {
  const uint32_t code = narrow.scale_codes.front();
  const bool is_nan = code == kE8m0NanCode;
  BlockWay way =
      way_of(x, narrow, [&](float v) { return is_nan ? 0.0f : v * e8m0_multiplier(code); });
  way.scale = {{"code", code}, {"value", json_number(e8m0_value(code))}};
  if (is_nan) {
    way.y_formula = "-";
    way.steps = {"a value is not finite: the scale is NaN (0xFF), all codes are 0"};
    return way;
  }
  way.scale["exponent"] = static_cast<int>(code) - 127;
  way.y_formula = fmt::format("x / 2^{}", static_cast<int>(code) - 127);
  return way;
}

void add_power_ways(BlockSteps& s, const std::vector<float>& x) {
  const ElementFormat& element = *s.operand.element;
  const ElementRange range = range_of(element);
  const float amax = amax_of(x);
  const bool usable = all_finite(x) && amax > 0;
  s.steps.push_back(fmt::format(
      "amax = {}{}; {}: largest {} = {} x 2^{}, emax {}", amax,
      usable ? fmt::format(" = {} x 2^{}", amax / pow2(floor_log2(amax)), floor_log2(amax)) : "",
      element.short_name, exact_text(range.max), exact_text(range.max / pow2(range.emax)),
      range.emax, range.emax));
  s.steps.emplace_back("exponent e of the scale; its code is c = e + 127, within 0 ... 254:");
  for (const auto& [rule, formula] : kPowerRules) {
    Operand cast = s.operand;
    cast.scale_rule = rule;
    const NarrowMatrix narrow = narrow_of(x, cast);
    const uint32_t code = narrow.scale_codes.front();
    const std::string e =
        code == kE8m0NanCode ? "NaN" : fmt::format("{}", static_cast<int>(code) - 127);
    s.steps.push_back(
        fmt::format("  {:<5} {:<59} e = {:>4}  c = 0x{:02X}", name_of(rule), formula, e, code));
    const auto same = std::find_if(s.ways.begin(), s.ways.end(),
                                   [&](const BlockWay& w) { return w.scale["code"] == code; });
    if (same != s.ways.end()) {
      same->rules.emplace_back(name_of(rule));
      continue;
    }
    s.ways.push_back(power_way(x, narrow));
    s.ways.back().rules.emplace_back(name_of(rule));
  }
}

// ---------------------------------------------------------------- NVFP4 [formats.md §4.1]

BlockWay two_level_way(const BlockSteps& s, const std::vector<float>& x, ScaleRule rule) {
  const float largest = max_value(*s.operand.element);
  const TwoLevelScale scale = two_level_scale(s.operand.tensor_scale, s.amax, largest);
  Operand cast = s.operand;
  cast.scale_rule = rule;
  const NarrowMatrix narrow = narrow_of(x, cast, s.amax);
  const float amax = amax_of(x);
  const float g = amax * scale.block;
  const uint32_t code = narrow.scale_codes.front();
  const float block = narrow.scales.front();
  const float inverse = e4m3_multiplier(code, scale);
  BlockWay way = way_of(x, narrow, [&](float v) {
    if (code == 0) return std::copysign(0.0f, v);
    return v * inverse;  // the encoder's saturation is the clamp of step 5
  });
  way.scale = {{"code", code},         {"value", block},   {"tensor_scale", narrow.tensor_scale},
               {"amax_block", amax},   {"m", scale.block}, {"g", g},
               {"multiplier", inverse}};
  way.steps = {fmt::format("3. g = fl32({} x m) = {}; sb = E4M3(min(g, 448)) = {} = 0x{:02X}", amax,
                           g, exact_text(block), code),
               fmt::format("4. inv = min(fl32(1 / fl32(sb x s_t)), FLT_MAX) = {}", inverse),
               fmt::format("5. y = clamp(fl32(x x inv), -{0}, {0}), rounded to {1}", largest,
                           s.operand.element->short_name)};
  if (code == 0) way.steps.emplace_back("   sb = 0: every code is a zero with its sign");
  way.y_formula = "fl32(x x inv)";
  return way;
}

void add_two_level_ways(BlockSteps& s, const std::vector<float>& x) {
  const float largest = max_value(*s.operand.element);
  const TwoLevelScale scale = two_level_scale(s.operand.tensor_scale, s.amax, largest);
  const float most = 448.0f * largest;
  const float quotient = most / s.amax;
  const bool usable = s.amax > 0 && quotient > 0;
  s.steps = {fmt::format(
                 "1. s_enc = fl32({} / {}) = {}, with {} = 448 x {} and {} the tensor's amax", most,
                 s.amax, usable ? std::min(quotient, kFloatMax) : 1.0f, most, largest, s.amax),
             fmt::format("2. s_t = fl32(1 / s_enc) = {}, stored beside the tensor", scale.tensor),
             fmt::format("   m = fl32(s_enc x fl32(1 / {})) = {}", largest, scale.block)};
  BlockWay nearest = two_level_way(s, x, ScaleRule::nearest);
  BlockWay up = two_level_way(s, x, ScaleRule::up);
  const std::string up_name(name_of(ScaleRule::up));
  nearest.rules.emplace_back(name_of(ScaleRule::nearest));
  up.rules = {up_name};
  const bool same = nearest.scale["code"] == up.scale["code"];
  if (same) nearest.rules.push_back(up_name);
  s.ways.push_back(std::move(nearest));
  if (!same) s.ways.push_back(std::move(up));
}

// ---------------------------------------------------------------- FP32 scales [formats.md §5, §6]

BlockWay encode_scale_way(const BlockSteps& s, const std::vector<float>& x, bool power) {
  Operand cast = s.operand;
  cast.scale = power ? ScaleKind::pow2 : ScaleKind::fp32;
  const NarrowMatrix narrow = narrow_of(x, cast, s.amax);
  const float largest = max_value(*cast.element);
  const float finite = all_finite(x) ? s.amax : HUGE_VALF;
  const float scale = encode_scale_of(finite, largest, power);
  const float inverse = narrow.scales.front();
  BlockWay way = way_of(x, narrow, [&](float v) { return v * scale; });
  way.rules = {power ? "pow2" : "fp32"};
  way.scale = {{"encode", scale}, {"decode", inverse}};
  way.steps = {finite > 0 && std::isfinite(finite)
                   ? fmt::format("s = fl32({} / {}) = {}{}", exact_text(largest), finite, scale,
                                 power ? ", its mantissa cleared" : "")
                   : kNoScale,
               fmt::format("decode by fl32(1 / s) = {}", inverse)};
  way.y_formula = "fl32(x x s)";
  return way;
}

BlockWay symmetric_way(const BlockSteps& s, const std::vector<float>& x) {
  const NarrowMatrix narrow = narrow_of(x, s.operand, s.amax);
  const float scale = narrow.scales.front();
  BlockWay way = way_of(x, narrow, [&](float v) { return v / scale; });
  way.rules = {"symmetric"};
  way.scale = {{"scale", scale}};
  way.steps = {s.amax > 0 && all_finite(x)
                   ? fmt::format("s = fl32({} / {}) = {}", s.amax, max_value(*way.element), scale)
                   : kNoScale};
  way.y_formula = "fl32(x / s)";
  return way;
}

BlockWay affine_way(const BlockSteps& s, const std::vector<float>& x) {
  const NarrowMatrix narrow =
      narrow_of(x, *find_cast(s.operand.element->bits == 8 ? "uint8" : "uint4"));
  const float low = std::min(0.0f, *std::min_element(x.begin(), x.end()));
  const float high = std::max(0.0f, *std::max_element(x.begin(), x.end()));
  const float scale = narrow.scales.front();
  const int zero = narrow.zeros.front();
  BlockWay way = way_of(x, narrow, [&](float v) { return v / scale; });
  way.rules = {"affine"};
  way.scale = {{"scale", scale}, {"zero", zero}};
  way.steps = {
      fmt::format("lo = min(x, 0) = {}, hi = max(x, 0) = {}, so that 0 stays exact", low, high),
      fmt::format("s = fl32((hi - lo) / {}) = {}, rounded once", max_value(*way.element), scale),
      fmt::format("z = rne(fl32(-lo / s)) = {}", zero)};
  way.y_formula = "fl32(x / s)";
  return way;
}

// ---------------------------------------------------------------- the request

float tensor_amax_of(const BlockSteps& s, const std::vector<float>& x, const std::string& typed) {
  const float own = amax_of(x);
  if (typed.empty()) return own;
  const bool affine = is_affine_element(*s.operand.element);
  if (affine || s.operand.scale == ScaleKind::e8m0)
    refuse("--amax",
           fmt::format("the scales of {} depend on their own {} only", s.name,
                       affine ? "row" : "block"),
           "leave it out");
  float rest = 0;
  try {
    rest = parse_value(typed);
  } catch (const Error&) {
    refuse("--amax", fmt::format("\"{}\" is no number", typed), "the tensor's largest magnitude");
  }
  if (!std::isfinite(rest))
    refuse("--amax", fmt::format("\"{}\" is not finite", typed), "the tensor's largest magnitude");
  if (!(rest >= own))
    refuse("--amax", fmt::format("{} is less than the {} among the values", typed, own),
           "the largest magnitude of the whole tensor");
  return rest;
}

}  // namespace

BlockSteps block_steps(std::string_view name, const std::vector<std::string>& typed,
                       const std::string& tensor_amax) {
  BlockSteps s;
  s.name = name;
  s.operand = *find_cast(name);
  const bool tiled = s.operand.block.kind == Block::Kind::tile;
  const size_t most = tiled ? static_cast<size_t>(s.operand.block.cols) : kMostValues;
  if (typed.size() > most)
    refuse("--value", fmt::format("{} values", typed.size()),
           fmt::format("{}at most {}", tiled ? "one block: " : "", most));
  std::vector<float> x;
  for (const std::string& t : typed) x.push_back(parse_value(t));
  s.padding = tiled ? most - x.size() : 0;
  s.amax = tensor_amax_of(s, x, tensor_amax);
  const bool integer = s.operand.element->kind == ElementKind::integer;
  const bool affine = is_affine_element(*s.operand.element);
  if (affine && !all_finite(x))
    refuse("--value", fmt::format("a value that is not finite for the scale of {}", name),
           "finite values, or --element for the integers alone");
  if (s.operand.scale == ScaleKind::e8m0) {
    add_power_ways(s, x);
  } else if (s.operand.scale == ScaleKind::e4m3) {
    add_two_level_ways(s, x);
  } else if (integer) {
    if (!affine) s.ways.push_back(symmetric_way(s, x));
    if (all_finite(x)) s.ways.push_back(affine_way(s, x));
  } else {
    s.ways.push_back(encode_scale_way(s, x, false));
    s.ways.push_back(encode_scale_way(s, x, true));
  }
  return s;
}

std::vector<uint8_t> packed_bytes_of(const BlockSteps& steps, const BlockWay& way) {
  std::vector<uint16_t> codes;
  for (const BlockElement& e : way.elements) codes.push_back(static_cast<uint16_t>(e.code));
  codes.resize(codes.size() + steps.padding, 0);
  std::vector<uint8_t> bytes(packed_bytes(static_cast<int64_t>(codes.size()), way.element->bits));
  pack_codes(codes, way.element->bits, bytes);
  return bytes;
}

}  // namespace ng::cli
