#include "backend/cpu/gemm/job.h"

#include <algorithm>

#include "backend/cpu/types.h"
#include "base/error.h"
#include "format/codec.h"

namespace ng::cpu {
namespace {

constexpr int64_t kBlockK = 1024;       // a right panel of 48 columns takes 192 KiB of L2
constexpr int64_t kSuperblockK = 2048;  // left panels of 1024 rows take the 8 MiB below
constexpr int64_t kLeftFloats = int64_t{2} << 20;
constexpr int64_t kPartialFloats = int64_t{1} << 20;

// Even pieces of at most `largest`, each a multiple of `unit`.
int64_t even_piece(int64_t total, int64_t largest, int64_t unit) {
  largest = std::max(largest / unit * unit, unit);
  const int64_t pieces = std::max<int64_t>(ceil_div(total, largest), 1);
  return std::max(round_up(ceil_div(total, pieces), unit), unit);
}

void plan(Job& job) {
  const int rows = job.kernel.rows;
  const int cols = job.kernel.cols;
  job.block_k = even_piece(job.k, kBlockK * job.lanes(), job.rule.unit);
  job.super_k =
      std::min(std::max(kSuperblockK * job.lanes() / job.block_k, int64_t{1}) * job.block_k,
               round_up(std::max<int64_t>(job.k, 1), job.block_k));
  const int64_t segments = job.segments(job.block_k) * (job.super_k / job.block_k);
  const int64_t floats_per_row = job.elements(job.super_k) + (3 + job.sums()) * segments;
  job.chunk_m = even_piece(job.m, kLeftFloats / floats_per_row, rows);
  job.chunk_n = round_up(job.n, cols);
  const bool waits = job.k > job.block_k;
  job.partial_in_y =
      !waits || (job.out.into != Into::add && job.rule.sum != Sum::integer && !job.stores_bf16());
  if (job.partial_in_y) return;
  const int64_t planes = job.rule.sum == Sum::integer ? 2 : 1;
  job.chunk_m = std::min(job.chunk_m, kPartialFloats / (planes * cols) / rows * rows);
  job.chunk_n = even_piece(job.n, kPartialFloats / (planes * job.chunk_m), cols);
}

// The value of the integer 1 in panels of integers.
float unit_of(const OperandSpec& spec) { return min_subnormal(*spec.cast.element); }

double largest_integer(const OperandSpec& spec) {
  return double{max_value(*spec.cast.element)} / unit_of(spec);
}

// The largest sum of one segment, in integers.
double largest_sum(const GemmRule& rule, const OperandSpec& a, const OperandSpec& b) {
  const int64_t products =
      rule.sum == Sum::groups ? kGroup * kGroupFactor * kGroupFactor : rule.segment;
  return static_cast<double>(products) * largest_integer(a) * largest_integer(b);
}

bool has_words(const OperandSpec& spec) {
  return !is_read_in_place(spec) && packed_layout(spec).interleaved;
}

// What int16 pairs are made of: words, or BF16 patterns of integers.
bool has_int16(const OperandSpec& spec) {
  if (is_read_in_place(spec)) return false;
  const bool is_bf16 = packed_layout(spec).form == ElementForm::bf16;
  return has_words(spec) || (is_bf16 && int16_unit(*spec.cast.element) != 0);
}

// Sum::scaled_add rounds products of sums and scales before it adds them. Plain powers of two leave
// nothing to round where sums are neither huge nor tiny [scales.cc], nor do E4M3 scales, of 4
// bits each, in short sums of small integers.
bool rounds_products(const GemmRule& rule, const OperandSpec& a, const OperandSpec& b) {
  if (rule.sum != Sum::scaled_add) return false;
  if (a.cast.scale == ScaleKind::e4m3 || b.cast.scale == ScaleKind::e4m3)
    return !has_words(a) || !has_words(b) || largest_sum(rule, a, b) >= 0x1p16;
  const ElementFormat &left = *a.cast.element, &right = *b.cast.element;
  const double segment = static_cast<double>(rule.segment);
  return segment * max_value(left) * max_value(right) >= 0x1p40 ||
         double{min_subnormal(left)} * min_subnormal(right) < 0x1p-37;
}

// Words along K whose products int16 can sum; 0: none. Of groups a's elements are shifted, b's
// sums.
int64_t short_words(const Microkernel& kernel, const GemmRule& rule, const OperandSpec& a,
                    const OperandSpec& b) {
  if (kernel.short_dots.scaled == nullptr || rule.sum == Sum::integer) return 0;
  const double left = largest_integer(a) * (rule.sum == Sum::groups ? kGroupFactor : 1);
  const double right = largest_integer(b);
  if (2 * left * (128 + right) >= 0x1p15) return 0;
  for (int64_t words : {8, 4})
    if (rule.segment % (words * kWord) == 0 && a.k_padded() % (words * kWord) == 0 &&
        2 * static_cast<double>(words) * left * right < 0x1p15)
      return words;
  return 0;
}

// Integers give the bits of FP32: sums that it holds, scales that multiply them exactly where the
// rule rounds twice.
bool are_exact_integers(const GemmRule& rule, const OperandSpec& a, const OperandSpec& b) {
  if (rule.sum == Sum::chain || rule.sum == Sum::tile32) return false;
  if (rounds_products(rule, a, b) || largest_sum(rule, a, b) >= 0x1p24) return false;
  // Exact in every scale it is multiplied into: a large one would overflow, one of FP32 underflow.
  const float unit = unit_of(a) * unit_of(b);
  return rule.sum == Sum::scaled_fma && !rule.has_room ? unit == 1 : unit <= 1;
}

// E4M3 scales are 0, or from 2^-9 to 448: their products with second scales have room, unless these
// are tiny or huge.
bool can_have_room(const OperandSpec& spec) { return spec.cast.scale == ScaleKind::e4m3; }

bool has_room(const PackedOperand& packed) {
  const OperandSpec& spec = packed.spec;
  if (!can_have_room(spec) || !spec.cast.has_folded_scales()) return can_have_room(spec);
  const auto* second =
      reinterpret_cast<const float*>(packed.storage + packed_layout(spec).tensor_at);
  const ScaleShape regions = tensor_scale_shape(spec.cast, spec.rows, spec.k_padded());
  return std::all_of(second, second + regions.rows * regions.cols,
                     [](float scale) { return scale >= 0x1p-50f && scale <= 0x1p50f; });
}

bool takes_words(const Microkernel& kernel, const GemmRule& rule, const OperandSpec& a,
                 const OperandSpec& b) {
  if (!has_words(a) || !has_words(b)) return false;
  if (kernel.dots.plain == nullptr && short_words(kernel, rule, a, b) == 0) return false;
  if (rule.segment % kWord != 0 || a.k_padded() % kWord != 0) return false;
  return are_exact_integers(rule, a, b);
}

// Groups need shifts, of elements or of sums; panels of int16 have neither.
bool takes_int16(const Microkernel& kernel, const GemmRule& rule, const OperandSpec& a,
                 const OperandSpec& b) {
  if (kernel.int16_dots.plain == nullptr || rule.sum == Sum::groups) return false;
  if (!has_int16(a) || !has_int16(b)) return false;
  if (rule.segment % kPair != 0 || a.k_padded() % kPair != 0) return false;
  return are_exact_integers(rule, a, b);
}

// Multiples of 2^-126 keep all that the pair kernels see from being subnormal: their sums are such
// multiples too, and rounding makes no others of them.
bool are_never_subnormal(const OperandSpec& a, const OperandSpec& b) {
  const double left = min_subnormal(*a.cast.element), right = min_subnormal(*b.cast.element);
  return left >= 0x1p-126 && right >= 0x1p-126 && left * right >= 0x1p-126;
}

// The pair kernels give the bits of the FP32 ones, tiles of a chain that may_flush aside.
bool takes_bf16(const Microkernel& kernel, const GemmRule& rule, const OperandSpec& a,
                const OperandSpec& b) {
  const auto has_bf16 = [](const OperandSpec& spec) {
    if (!is_read_in_place(spec)) return packed_layout(spec).form == ElementForm::bf16;
    return spec.cast.element->short_name == "bf16";
  };
  if (kernel.bf16.chain == nullptr || !has_bf16(a) || !has_bf16(b)) return false;
  if (rule.sum == Sum::chain)
    return rule.a_scales == ScaleUse::none && rule.b_scales == ScaleUse::none;
  const bool is_scaled = rule.sum == Sum::scaled_add || rule.sum == Sum::scaled_fma;
  const bool is_even = rule.segment % kPair == 0 && a.k_padded() % kPair == 0;
  return is_scaled && is_even && are_never_subnormal(a, b);
}

Units units_of(const Microkernel& kernel, const GemmRule& rule, const OperandSpec& a,
               const OperandSpec& b) {
  if (takes_words(kernel, rule, a, b)) return Units::int8;
  if (takes_bf16(kernel, rule, a, b)) return Units::bf16;
  return takes_int16(kernel, rule, a, b) ? Units::int16 : Units::fp32;
}

// Tiles multiply 32 bytes along K at least, BF16 in the order tile32 alone, and integers. Null
// where these are no such operands, or no tiles.
const MatrixKernels* tiles_for(const GemmRule& rule, const OperandSpec& a, const OperandSpec& b,
                               const MatrixKernels* tiles) {
  constexpr int64_t kLeast = 32;
  if (rule.sum == Sum::tile32) return tiles;
  const bool are_words = has_words(a) && has_words(b) && rule.segment % kLeast == 0 &&
                         a.k_padded() % kLeast == 0 && are_exact_integers(rule, a, b);
  return are_words ? tiles : nullptr;
}

Units units_on_tiles(const GemmRule& rule) {
  return rule.sum == Sum::tile32 ? Units::bf16 : Units::int8;
}

void lay_out_for_tiles(Job& job) {
  constexpr int64_t kDeep = 16, kShallow = 8;  // words along K of an instruction
  job.a.biased = job.b.biased = false;
  if (job.units == Units::bf16) {
    job.a.units = job.b.units = Units::fp32;  // narrowed to pairs afterwards
    job.left_words = kDeep;
  } else if (job.rule.sum == Sum::groups) {
    job.left_words = kGroup / kWord;  // whose blocks may have to be multiplied alone
  } else {
    const bool is_deep = job.rule.segment % (kDeep * kWord) == 0 && job.k % (kDeep * kWord) == 0;
    job.left_words = is_deep ? kDeep : kShallow;
  }
}

void multiply_bf16(Job& job, bool may_flush) {
  job.may_flush = may_flush;
  job.a.ends_negative = true;
}

void multiply_integers(Job& job, const OperandSpec& a, const OperandSpec& b) {
  const bool are_words = job.units == Units::int8;
  const int64_t words = are_words ? short_words(job.kernel, job.rule, a, b) : 0;
  NG_CHECK(words == 0 || job.rule.sum != Sum::groups || words * kWord == job.rule.segment, words);
  job.words = words;
  job.a.short_words = job.b.short_words = words;
  job.a.unit = unit_of(a);
  job.b.unit = unit_of(b);
  if (job.rule.sum != Sum::integer) job.a.scale_unit = job.a.unit * job.b.unit;
  job.a.looks_up = job.b.looks_up = job.dots().scaled_by_lookup != nullptr &&
                                    permutes_beside_products() && job.rule.sum == Sum::scaled_add &&
                                    a.cast.scale == ScaleKind::e4m3 &&
                                    b.cast.scale == ScaleKind::e4m3;
}

}  // namespace

Units units_of(const OperandSpec& a, const OperandSpec& b, SumOrder sum) {
  GemmRule rule = rule_of(a, b, sum);
  rule.has_room = can_have_room(a) && can_have_room(b);
  if (tiles_for(rule, a, b, current_matrix_kernels()) != nullptr) return units_on_tiles(rule);
  return units_of(current_microkernel(), rule, a, b);
}

Job job_of(const Gemm& out, const MatrixKernels* tiles) {
  const PackedOperand &a = *out.a, &b = *out.b;
  NG_CHECK(a.spec.rows == out.y.rows && b.spec.rows == out.y.cols, a.spec.rows, out.y.rows,
           b.spec.rows, out.y.cols);
  NG_CHECK(a.spec.k_padded() == b.spec.k_padded() && a.spec.hadamard == b.spec.hadamard,
           a.spec.k_padded(), b.spec.k_padded());
  GemmRule rule = rule_of(a.spec, b.spec, out.sum);
  rule.has_room = rule.sum == Sum::scaled_fma && has_room(a) && has_room(b);
  tiles = tiles_for(rule, a.spec, b.spec, tiles);
  const bool on_tiles = tiles != nullptr;
  Job job{.out = out,
          .kernel = on_tiles ? tiles->kernel : current_microkernel(),
          .rule = rule,
          .tile32 = on_tiles ? tiles->tile32 : current_tile32(),
          .on_tiles = on_tiles};
  job.a = panel_source(a, job.rule.a_scales, job.rule.segment);
  job.b = panel_source(b, job.rule.b_scales, job.rule.segment);
  job.units = on_tiles ? units_on_tiles(rule) : units_of(job.kernel, job.rule, a.spec, b.spec);
  job.a.units = job.b.units = job.units;
  job.rounds_products = rounds_products(job.rule, a.spec, b.spec);
  job.kernel_rounds = job.rounds_products && job.units == Units::fp32 &&
                      a.spec.cast.scale == ScaleKind::e4m3 && b.spec.cast.scale == ScaleKind::e4m3;
  if (job.has_integers()) multiply_integers(job, a.spec, b.spec);
  if (job.units == Units::bf16 && !on_tiles)
    multiply_bf16(job, !are_never_subnormal(a.spec, b.spec));
  require_values(out.kName, {out.y});
  require_fp32(out.kName, {out.bias});
  if (out.y.is(bf16_format()))
    job.y16 = out.y.as<Bf16>();
  else
    job.y32 = out.y.as<float>();
  NG_CHECK(out.bias.rows == 0 || out.bias.cols == out.y.cols, out.bias.cols, out.y.cols);
  job.m = out.y.rows;
  job.n = out.y.cols;
  job.k = a.spec.k_padded();
  if (job.rule.sum == Sum::tile32) job.k = round_up(job.k, kTileDepth);
  if (on_tiles) lay_out_for_tiles(job);
  job.scaled = job.a.has_end_scale() || job.b.has_end_scale() || job.rule.alpha != 1.0f;
  if (job.has_scaled_sums() && !job.scales_rows())
    job.factor = job.a.end_scale(0) * job.b.end_scale(0) * job.rule.alpha;
  const bool is_chain = job.rule.sum == Sum::chain || job.rule.sum == Sum::tile32;
  NG_CHECK(out.into != Into::carry || (is_chain && !job.scaled && !job.stores_bf16()));
  plan(job);
  return job;
}

}  // namespace ng::cpu
