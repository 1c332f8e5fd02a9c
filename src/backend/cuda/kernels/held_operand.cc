#include "backend/cuda/kernels/held_operand.h"

namespace ng::cuda {
namespace {

constexpr uintptr_t kLibraryLine = 16;  ///< bytes that FP8 and FP4 have to begin at a multiple of

/// Late scales are those of rows, of the whole, and of a second level.
bool has_late_scales(const CardOperand& x) {
  return (x.scales.data != nullptr && !x.blocked) || (x.second.data != nullptr && !x.folded);
}

/// Whether an operand lies in memory as the library takes it.
const void* place_of(const CardOperand& x, const ElementFormat& element, const Held& held,
                     bool folds) {
  const bool is_bf16 = element.short_name == "bf16";
  if (held.type == MatmulType::bf16)
    return !x.stored && is_bf16 && x.source.is_bf16 ? x.source.data : nullptr;
  const bool is_same = held.type != MatmulType::int8 && element.name == element_of(held.type).name;
  const int64_t multiple = held_multiple(held.type);
  const bool fits = x.codes.stride == x.k_padded && x.k_padded % multiple == 0 &&
                    x.rows % multiple == 0 && x.codes.bits == element.bits &&
                    reinterpret_cast<uintptr_t>(x.codes.data) % kLibraryLine == 0;
  return is_same && !folds && x.stored && !x.lists && fits ? x.codes.data : nullptr;
}

/// The power of two of a row that folds, so that its largest block reaches FP8's largest exponent;
/// or that the row is left out.
struct FindReference {
  CardOperand from;
  FoldWindow window;
  float* references;
  uint32_t* left_out;
  __device__ void operator()(int64_t row, int lane) const {
    int least = kNone, most = -kNone;
    bool has_nan = false;
    for (int64_t k = int64_t{lane} * kMxBlock; k < from.k_padded; k += kWarp * kMxBlock) {
      const uint32_t code = from.scales.data[from.scales.index(row, k)];
      has_nan = has_nan || code == kE8m0NanCode;
      if (!has_value(row, k)) continue;
      const int exponent = static_cast<int>(code) - 127;
      least = exponent < least ? exponent : least;
      most = exponent > most ? exponent : most;
    }
    for (int distance = kWarp / 2; distance > 0; distance /= 2) {
      const int other_least = __shfl_xor_sync(~0u, least, distance);
      const int other_most = __shfl_xor_sync(~0u, most, distance);
      least = other_least < least ? other_least : least;
      most = other_most > most ? other_most : most;
    }
    has_nan = __any_sync(~0u, has_nan);
    if (lane != 0) return;
    const bool is_out = has_nan || most - least >= window.binades();
    left_out[row] = is_out ? 1 : 0;
    references[row] = is_out || most < least ? 1.0f : pow2(most - window.most);
  }

 private:
  static constexpr int kNone = 1 << 20;  ///< beyond all exponents

  /// Whether a block has an element other than zeros: of its codes, which fill words.
  [[nodiscard]] __device__ bool has_value(int64_t row, int64_t k) const {
    const int bits = from.codes.bits;
    const uint32_t magnitudes =
        (from.element.grid.sign_mask - 1) * (bits == 4 ? 0x11111111u : 0x01010101u);
    const auto* words = reinterpret_cast<const uint32_t*>(from.codes.data +
                                                          (row * from.codes.stride + k) * bits / 8);
    uint32_t any = 0;
    for (int i = 0; i < kMxBlock * bits / 32; ++i) any |= words[i] & magnitudes;
    return any != 0;
  }
};

/// Late scales as the library multiplies with them; 1 where they are not its own.
struct PutLateScales {
  CardOperand from;
  float* scales;
  bool is_late;
  __device__ void operator()(int64_t /* row */, int64_t at) const {
    scales[at] = is_late ? 1.0f : from.late_scale(at);
  }
};

/// Scales of blocks in the library's order; outside of the operand those of zeros.
struct PutBlockScales {
  CardOperand from;
  int64_t first;
  uint8_t* to;
  int64_t blocks;
  int block;
  __device__ void operator()(int64_t i, int64_t b) const {
    const int64_t row = first + i, k = b * block;
    const bool is_inside = row < from.rows && k < from.k_padded;
    to[block_scale_at(i, b, blocks)] =
        is_inside ? from.scales.data[from.scales.index(row, k)] : uint8_t{0};
  }
};

/// FP32 scales of 1 x 128, or of squares, of which `row` is one; outside of the operand 1.
struct PutWideScales {
  CardOperand from;
  int64_t first;
  float* to;
  int64_t rows, blocks;
  bool are_squares;
  __device__ void operator()(int64_t i, int64_t b) const {
    const int64_t at = are_squares ? i * 128 : i, row = first + at, k = b * 128;
    const bool is_inside = row < from.rows && k < from.k_padded;
    to[are_squares ? block128_scale_at(at, b, blocks) : vec128_scale_at(at, b, rows)] =
        is_inside ? from.scale_at(row, k) : 1.0f;
  }
};

/// Elements of rows from `first` on; zeros outside of the operand.
struct HoldEach {
  CardOperand from;
  int64_t first;
  void* to;
  int64_t leading;
  MatmulType type;
  bool has_block_scales;
  FloatGrid grid;            ///< of FP8
  const float* references;   ///< of rows that fold, else null
  const uint32_t* left_out;  ///< the same

  /// `at`: of E2M1 two elements.
  __device__ void operator()(int64_t i, int64_t at) const {
    const int64_t row = first + i;
    if (type == MatmulType::bf16) {
      static_cast<Bf16*>(to)[i * leading + at] = to_bf16(value(row, at));
    } else if (type == MatmulType::int8) {
      static_cast<int8_t*>(to)[i * leading + at] = static_cast<int8_t>(from.element_at(row, at));
    } else if (type == MatmulType::e2m1) {
      const uint32_t both = code(row, 2 * at) | code(row, 2 * at + 1) << 4;
      static_cast<uint8_t*>(to)[i * leading / 2 + at] = static_cast<uint8_t>(both);
    } else {
      static_cast<uint8_t*>(to)[i * leading + at] =
          static_cast<uint8_t>(encode_floating(grid, value(row, at), {}, OverflowRule::special));
    }
  }

 private:
  [[nodiscard]] __device__ bool is_inside(int64_t row, int64_t k) const {
    return row < from.rows && k < from.k_padded;
  }
  [[nodiscard]] __device__ uint32_t code(int64_t row, int64_t k) const {
    return is_inside(row, k) ? from.codes(row, k) : 0;
  }
  /// The element, with its block's scale where that is not the library's.
  [[nodiscard]] __device__ float value(int64_t row, int64_t k) const {
    const float element = from.element_at(row, k);
    if (!from.is_blocked() || has_block_scales || !is_inside(row, k)) return element;
    if (references == nullptr) return element * from.folded_scale(row, k);
    // Both are powers of two, and their quotient is within the window or nothing is held.
    return left_out[row] != 0 || element == 0 ? 0.0f
                                              : element * (from.scale_at(row, k) / references[row]);
  }
};

}  // namespace

HeldOperand held_operand(const CardOperand& x, const Operand& cast, const Held& held, bool folds,
                         Room& room) {
  HeldOperand made{.from = x, .held = held, .folds = folds};
  made.in_place = place_of(x, *cast.element, held, made.folds);
  const bool is_source = made.in_place != nullptr && held.type == MatmulType::bf16;
  made.leading = is_source ? x.source.stride : made.k_held();
  const bool by_rows = held.scale == MatmulScale::outer;
  const bool by_library =
      by_rows || (held.scale == MatmulScale::tensor && x.scales.data == nullptr);
  made.is_late = (has_late_scales(x) || made.folds) && !by_library;
  if (by_rows) made.scales = room.take_all<float>(x.rows);
  if (held.scale == MatmulScale::tensor) made.scales = room.take_all<float>(1);
  if (made.folds) {
    NG_CHECK(x.k_padded % kMxBlock == 0, x.k_padded);
    made.references = by_rows ? made.scales : room.take_all<float>(x.rows);
    made.left_out = room.take_all<uint32_t>(x.rows);
    made.window = fold_window(*cast.element, element_of(held.type));
  }
  return made;
}

void find_scales(Stream stream, const HeldOperand& x) {
  if (x.folds)
    for_each_row(stream, x.from.rows, FindReference{x.from, x.window, x.references, x.left_out});
  if (x.scales != nullptr && x.scales != x.references)
    for_each_place(stream, 1, x.held.scale == MatmulScale::outer ? x.from.rows : 1,
                   PutLateScales{x.from, x.scales, x.is_late});
}

MatmulOperand described(const HeldOperand& x, int64_t first) {
  MatmulOperand made{.type = x.held.type, .leading = x.leading, .scale = x.held.scale};
  if (x.in_place == nullptr) return made;
  made.transposed = !x.from.stored && x.from.is_turned;
  const int64_t elements = made.transposed ? first : first * x.leading;
  made.data = static_cast<const uint8_t*>(x.in_place) + elements * bits_of(x.held.type) / 8;
  return made;
}

MatmulOperand hold(Stream stream, const HeldOperand& x, int64_t first, int64_t rows,
                   std::byte* values, std::byte* block_scales) {
  MatmulOperand made = described(x, first);
  if (x.in_place == nullptr) {
    const int64_t across = x.held.type == MatmulType::e2m1 ? x.k_held() / 2 : x.k_held();
    for_each_place(
        stream, x.rows_held(rows), across,
        HoldEach{.from = x.from,
                 .first = first,
                 .to = values,
                 .leading = x.leading,
                 .type = x.held.type,
                 .has_block_scales = x.has_block_scales(),
                 .grid = is_fp8(x.held.type) ? grid_of(element_of(x.held.type)) : FloatGrid{},
                 .references = x.references,
                 .left_out = x.left_out});
    made.data = values;
  }
  made.scales = x.held.scale == MatmulScale::outer ? x.scales + first : x.scales;
  if (!x.has_block_scales()) return made;
  made.scales = block_scales;
  if (x.has_wide_scales()) {
    const bool are_squares = x.held.scale == MatmulScale::block128;
    const int64_t held = x.rows_held(rows);
    for_each_place(stream, are_squares ? up_to(held, 128) / 128 : held, x.blocks(),
                   PutWideScales{x.from, first, reinterpret_cast<float*>(block_scales), held,
                                 x.blocks(), are_squares});
    return made;
  }
  // All of the tiles of 128 by 4.
  for_each_place(stream, up_to(x.rows_held(rows), kPieceRows), up_to(x.blocks(), 4),
                 PutBlockScales{x.from, first, reinterpret_cast<uint8_t*>(block_scales), x.blocks(),
                                static_cast<int>(x.block())});
  return made;
}

}  // namespace ng::cuda
