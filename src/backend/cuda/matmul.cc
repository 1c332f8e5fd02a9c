#include "backend/cuda/matmul.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string_view>

#include "base/error.h"

namespace ng::cuda {
namespace {

using Type = MatmulType;
using Scale = MatmulScale;

constexpr std::array<std::string_view, 7> kTypeNames = {"FP32", "BF16", "E4M3", "E5M2",
                                                        "E2M1", "INT8", "INT32"};
constexpr std::array<std::string_view, 7> kScaleNames = {
    "no scales",   "a tensor's scale", "scales of rows", "VEC16_UE4M3",
    "VEC32_UE8M0", "VEC128_32F",       "BLK128x128_32F"};

bool types_fit(const Matmul& p) {
  const Type a = p.a.type, b = p.b.type, d = p.d_type;
  if (is_fp8(a) && is_fp8(b) && !(a == Type::e5m2 && b == Type::e5m2))
    return d == Type::bf16 || d == Type::fp32;
  if (a != b || is_fp8(a) || a == Type::int32) return false;
  if (a == Type::int8) return d == Type::int32;
  return d == Type::fp32 || (a != Type::fp32 && d == Type::bf16);
}

/// Of an operand's elements with its scales.
bool card_has(const Card& card, const MatmulOperand& x) {
  const bool narrow = is_fp8(x.type) || x.type == Type::e2m1;
  if (!narrow) return x.scale == Scale::none;
  if (x.type == Type::e2m1) return card.sm >= 100 && x.scale == Scale::vec16_ue4m3;
  switch (x.scale) {
    case Scale::tensor:
      return card.sm >= 89;
    case Scale::outer:
    case Scale::vec128:
    case Scale::block128:
      return card.sm == 90;
    case Scale::vec32_ue8m0:
      return card.sm >= 100;
    default:
      return false;
  }
}

bool scales_fit(Scale a, Scale b) {
  const auto is_of_128 = [](Scale s) { return s == Scale::vec128 || s == Scale::block128; };
  if (is_of_128(a) && is_of_128(b)) return a == Scale::vec128 || b == Scale::vec128;
  return a == b;
}

bool needs_tn(const Card& card, Type type) {
  if (type == Type::e2m1 || type == Type::int8) return true;
  return is_fp8(type) && card.sm != 100;
}

/// Bytes that pointers and leading dimensions are multiples of.
int64_t alignment_of(Type operand, Type type) {
  if (is_fp8(operand) || operand == Type::e2m1) return 16;
  return operand == Type::int8 ? 4 : bits_of(type) / 8;
}

/// A matrix of `rows` rows as it lies in memory.
std::string layout_refusal(std::string_view name, int64_t rows, int64_t leading, const void* data,
                           Type type, int64_t alignment) {
  if (leading < rows)
    return fmt::format("leading dimension {} of {} is below its {} rows", leading, name, rows);
  if (leading * bits_of(type) % (8 * alignment) != 0)
    return fmt::format("leading dimension {} of {} ({}) is no multiple of {} bytes", leading, name,
                       name_of(type), alignment);
  if (reinterpret_cast<uintptr_t>(data) % static_cast<uintptr_t>(alignment) != 0)
    return fmt::format("{} does not begin at a multiple of {} bytes", name, alignment);
  return {};
}

std::string layouts_refusal(const Matmul& p) {
  const Type type = p.a.type;
  const auto operand = [&](std::string_view name, const MatmulOperand& x, int64_t rows) {
    return layout_refusal(name, rows, x.leading, x.data, x.type, alignment_of(type, x.type));
  };
  std::string why = operand("A", p.a, p.a.transposed ? p.k : p.m);
  if (why.empty()) why = operand("B", p.b, p.b.transposed ? p.n : p.k);
  if (why.empty())
    why = layout_refusal("D", p.m, p.d_leading, p.d, p.d_type, alignment_of(type, p.d_type));
  return why;
}

/// Of operands that lie in memory: a product that is only asked about has none.
std::string scales_refusal(const MatmulOperand& x) {
  if (x.data == nullptr || x.scale == Scale::none) return {};
  if (x.scales == nullptr) return fmt::format("no {}", name_of(x.scale));
  const bool is_one = x.scale == Scale::tensor;
  if (is_one || reinterpret_cast<uintptr_t>(x.scales) % 16 == 0) return {};
  return fmt::format("{} do not begin at a multiple of 16 bytes", name_of(x.scale));
}

std::string refusal(const Card& card, const Matmul& p) {
  const MatmulOperand &a = p.a, &b = p.b;
  if (p.m < 1 || p.n < 1 || p.k < 1)
    return fmt::format("m {}, n {}, k {}: at least 1 each", p.m, p.n, p.k);
  if (!types_fit(p))
    return fmt::format("{} · {} to {}", name_of(a.type), name_of(b.type), name_of(p.d_type));
  for (const MatmulOperand* x : {&a, &b})
    if (!card_has(card, *x)) return fmt::format("{} with {}", name_of(x->type), name_of(x->scale));
  if (!scales_fit(a.scale, b.scale))
    return fmt::format("{} beside {}", name_of(a.scale), name_of(b.scale));
  if (needs_tn(card, a.type) && !(a.transposed && !b.transposed))
    return fmt::format("{}: A has to be transposed and B not", name_of(a.type));
  const int64_t of_128 = a.scale == Scale::vec128 || a.scale == Scale::block128 ? 8 : 1;
  const int64_t m_multiple = a.type == Type::int8 ? 4 : of_128;
  if (p.m % m_multiple != 0) return fmt::format("m {} is no multiple of {}", p.m, m_multiple);
  const int64_t k_multiple = alignment_of(a.type, a.type) * 8 / bits_of(a.type);
  if (p.k % k_multiple != 0) return fmt::format("k {} is no multiple of {}", p.k, k_multiple);
  for (const MatmulOperand* x : {&a, &b})
    if (std::string why = scales_refusal(*x); !why.empty()) return why;
  return layouts_refusal(p);
}

}  // namespace

int64_t bits_of(Type type) {
  if (type == Type::fp32 || type == Type::int32) return 32;
  if (type == Type::bf16) return 16;
  return type == Type::e2m1 ? 4 : 8;
}

const ElementFormat& element_of(Type type) {
  NG_CHECK(is_fp8(type) || type == Type::e2m1, name_of(type));
  return element_format(type == Type::e5m2 ? "e5m2" : type == Type::e4m3 ? "e4m3" : "e2m1");
}

std::string_view name_of(Type type) { return kTypeNames[static_cast<size_t>(type)]; }
std::string_view name_of(Scale scale) { return kScaleNames[static_cast<size_t>(scale)]; }

std::string matmul_refusal(const Card& card, const Matmul& product) {
  const std::string why = refusal(card, product);
  return why.empty() ? why : fmt::format("cuBLASLt on {}: {}", card.name, why);
}

}  // namespace ng::cuda
