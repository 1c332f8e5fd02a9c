// By which means a card computes a GEMM: the narrowest elements of its matrix units that hold both
// operands and that cuBLASLt takes there. Scales of rows and of the whole, where the library has no
// place for them, and a bias are applied to FP32 sums afterwards. [gpu.md §3, §4]
//
//   route   both operands                                  held as
//   nvfp4   E2M1 with E4M3 scales of 16; second scales     E2M1, VEC16_UE4M3
//           do not differ along K
//   mxfp8   MX elements of 4 to 8 bits, blocks of 32       E4M3 or E5M2, VEC32_UE8M0
//   fp8     E4M3 and E5M2 without scale, with one, of      E4M3 or E5M2, FP32 scales
//           rows, in FP32 of 1 x 128 and 128 x 128
//   folded  MXFP4 and MXFP6; rows whose blocks' exponents  element · 2^(block - reference), B in
//           do not lie in fold_window() are left to        E4M3, A, where gradients are, in E5M2 if
//           `kernel`                                       that holds it; a reference a row
//   int8    integers without blocks                        INT8, sums in INT32
//   bf16    what BF16 holds with its blocks' scales        BF16
//   kernel  all others, and SumOrder::tile32               kernels/gemm.cc: the bits of `ref`
#pragma once

#include <string>

#include "backend/cuda/units.h"
#include "backend/gemm_operations.h"

namespace ng::cuda {

enum class Route : uint8_t { nvfp4, mxfp8, fp8, folded, int8, bf16, kernel };
inline constexpr size_t kRoutes = 7;
[[nodiscard]] std::string_view name_of(Route route);

/// What of a GEMM a route is chosen by: y (M, N) in FP32 = A (M, K) · B (N, K)ᵀ.
struct GemmForm {
  OperandSpec a, b;
  SumOrder sum = SumOrder::chain;
};

/// Elements of an operand and their scales, in the library's words.
struct Held {
  MatmulType type = MatmulType::bf16;
  MatmulScale scale = MatmulScale::none;
  friend bool operator==(const Held&, const Held&) = default;
};
/// "E4M3 with scales of rows"
[[nodiscard]] std::string text_of(const Held& held);

struct RouteChoice {
  Route route = Route::kernel;
  Held a{}, b{};    ///< unset for `kernel`
  std::string why;  ///< it is no narrower one; empty: there is none for such operands
};

/// By what is known of a kind of card and of the library there.
[[nodiscard]] RouteChoice choose_route(const Card& card, const GemmForm& form);
/// By what the library of a card says.
[[nodiscard]] RouteChoice choose_route(Units& units, const GemmForm& form);

}  // namespace ng::cuda
