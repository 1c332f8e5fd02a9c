#include "backend/cuda/route.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <optional>
#include <vector>

#include "backend/cuda/fold.h"

namespace ng::cuda {
namespace {

using Type = MatmulType;
using Scale = MatmulScale;
/// None: an operand that a route does not hold.
using MaybeHeld = std::optional<Held>;

constexpr std::array<std::string_view, kRoutes> kRouteNames = {"nvfp4", "mxfp8", "fp8",   "folded",
                                                               "int8",  "bf16",  "kernel"};
constexpr int64_t kMxValues = 32, kNvfp4Values = 16, kFp8Values = 128;  // along K, of a scale
constexpr int64_t kIntegerSums = 131072;  ///< products of up to ±127 that INT32 sums

bool is_in_blocks(const Operand& cast, ScaleKind scale, int64_t cols) {
  return cast.scale == scale && cast.block.kind == Block::Kind::tile && cast.block.cols == cols;
}
bool has_blocks(const Operand& cast) {
  return !cast.is_unscaled() && cast.block.kind == Block::Kind::tile;
}
bool has_rows(const Operand& cast) {
  return !cast.is_unscaled() && cast.block.kind == Block::Kind::row;
}

/// Of FP4, FP6 and FP8 as they are.
std::optional<Type> fp8_type(const ElementFormat& element) {
  if (element.short_name == "e5m2") return Type::e5m2;
  const bool fits = element.short_name == "e4m3" || element.short_name == "e3m2" ||
                    element.short_name == "e2m3" || element.short_name == "e2m1";
  return fits ? std::optional(Type::e4m3) : std::nullopt;
}

MaybeHeld as_nvfp4(const Operand& cast) {
  const bool fits = cast.element->short_name == "e2m1" && cast.other == nullptr &&
                    !cast.has_folded_scales() && is_in_blocks(cast, ScaleKind::e4m3, kNvfp4Values);
  return fits ? MaybeHeld({Type::e2m1, Scale::vec16_ue4m3}) : std::nullopt;
}

MaybeHeld as_mxfp8(const Operand& cast) {
  const auto type = fp8_type(*cast.element);
  if (!type || !is_in_blocks(cast, ScaleKind::e8m0, kMxValues)) return {};
  return Held{*type, Scale::vec32_ue8m0};
}

/// `other` is the operand beside it: the library scales both by rows or none.
MaybeHeld as_fp8(const Operand& cast, const Operand& other) {
  const auto type = fp8_type(*cast.element);
  if (!type || cast.element->bits != 8) return {};
  if (!has_blocks(cast))
    return Held{*type, has_rows(cast) || has_rows(other) ? Scale::outer : Scale::tensor};
  const bool is_wide = cast.scale == ScaleKind::fp32 || cast.scale == ScaleKind::pow2;
  if (!is_wide || cast.block.cols != kFp8Values) return {};
  if (cast.block.rows == 1) return Held{*type, Scale::vec128};
  return cast.block.rows == kFp8Values ? MaybeHeld({*type, Scale::block128}) : std::nullopt;
}

/// `is_left`: E5M2 reaches further, and the library takes it beside E4M3 once.
MaybeHeld as_folded(const Operand& cast, bool is_left) {
  const bool is_narrow = cast.element->bits < 8 && fp8_type(*cast.element);
  if (!is_narrow || !is_in_blocks(cast, ScaleKind::e8m0, kMxValues)) return {};
  const FoldWindow wide = fold_window(*cast.element, element_format("e5m2"));
  return Held{is_left && wide.binades() > 0 ? Type::e5m2 : Type::e4m3, Scale::outer};
}

MaybeHeld as_int8(const Operand& cast) {
  const bool fits = cast.element->kind == ElementKind::integer && cast.element->bits <= 8 &&
                    cast.element->mantissa_bits == 0 && !has_blocks(cast);
  return fits ? MaybeHeld({Type::int8, Scale::none}) : std::nullopt;
}

MaybeHeld as_bf16(const Operand& cast) {
  return cast.factors_are_bf16() ? MaybeHeld({Type::bf16, Scale::none}) : std::nullopt;
}

/// Where rows have scales of their own, but the library takes one for all.
MaybeHeld without_rows(MaybeHeld held) {
  if (!held || held->scale != Scale::outer) return {};
  return Held{held->type, Scale::tensor};
}

struct Plan {
  Route route;
  Held a, b;
};

/// The routes that hold both operands, the fastest first.
std::vector<Plan> plans_of(const GemmForm& form) {
  const Operand &a = form.a.cast, &b = form.b.cast;
  std::vector<Plan> plans;
  const auto add = [&](Route route, const MaybeHeld& left, const MaybeHeld& right) {
    if (left && right) plans.push_back({route, *left, *right});
  };
  const auto add_with_rows = [&](Route route, const MaybeHeld& left, const MaybeHeld& right) {
    add(route, left, right);
    add(route, without_rows(left), without_rows(right));
  };
  add(Route::nvfp4, as_nvfp4(a), as_nvfp4(b));
  add(Route::mxfp8, as_mxfp8(a), as_mxfp8(b));
  add_with_rows(Route::fp8, as_fp8(a, b), as_fp8(b, a));
  add_with_rows(Route::folded, as_folded(a, true), as_folded(b, false));
  add(Route::int8, as_int8(a), as_int8(b));
  add(Route::bf16, as_bf16(a), as_bf16(b));
  return plans;
}

/// As the library sees it: matrices lie by columns, so y is yᵀ = B · Aᵀ and B comes first.
Matmul matmul_of(const GemmForm& form, const Plan& plan) {
  const int64_t k = filled_up(form.a.k_padded(), plan.a.type);
  const int64_t m = filled_up(form.b.rows, plan.b.type);
  const bool is_int8 = plan.route == Route::int8;
  return {.m = m,
          .n = filled_up(form.a.rows, plan.a.type),
          .k = k,
          .a = {.type = plan.b.type, .transposed = true, .leading = k, .scale = plan.b.scale},
          .b = {.type = plan.a.type, .transposed = false, .leading = k, .scale = plan.a.scale},
          .d_type = is_int8 ? Type::int32 : Type::fp32,
          .d_leading = m};
}

/// `library`: why it refuses a Matmul.
template <class Library>
RouteChoice choose(const GemmForm& form, const Library& library) {
  NG_CHECK(form.a.k_padded() == form.b.k_padded(), form.a.k_padded(), form.b.k_padded());
  if (form.sum == SumOrder::tile32)
    return {.why = fmt::format("sum = \"{}\" is an order of its own", name_of(form.sum))};
  std::string why;
  for (const Plan& plan : plans_of(form)) {
    const bool overflows = plan.route == Route::int8 && form.a.k_padded() > kIntegerSums;
    const std::string refusal =
        overflows ? fmt::format("sums of {} products may leave INT32", form.a.k_padded())
                  : library(matmul_of(form, plan));
    if (refusal.empty())
      return {.route = plan.route, .a = plan.a, .b = plan.b, .why = std::move(why)};
    why += fmt::format("{}{}: {}", why.empty() ? "" : "; ", name_of(plan.route), refusal);
  }
  return {.why = std::move(why)};
}

}  // namespace

std::string text_of(const Held& held) {
  return fmt::format("{} with {}", name_of(held.type), name_of(held.scale));
}
std::string_view name_of(Route route) { return kRouteNames[static_cast<size_t>(route)]; }

RouteChoice choose_route(const Card& card, const GemmForm& form) {
  return choose(form, [&](const Matmul& product) { return matmul_refusal(card, product); });
}
RouteChoice choose_route(Units& units, const GemmForm& form) {
  return choose(form, [&](const Matmul& product) { return units.refusal(product); });
}

}  // namespace ng::cuda
