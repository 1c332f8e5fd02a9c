// Which instruction set the kernels use. The bits do not depend on it (docs/architecture.md).
#pragma once

#include <atomic>
#include <string>
#include <string_view>
#include <vector>

namespace ng {

/// Instruction sets the binary contains kernels for, weakest first. "vnni": with dot products of
/// four int8 or two int16 values; their other kernels are those of the set without. "bf16": with
/// those and dot products of two BF16 values, on CPUs where these have the bits of FP32 FMAs
/// (bf16_dot.h). "amx": those of avx512vnni with matrix tiles of BF16 and int8 (amx.h).
enum class Isa { scalar, avx2, avxvnni, avx512, avx512vnni, avx512bf16, avx512amx };

[[nodiscard]] std::string_view name_of(Isa isa);

/// Those this CPU can run, weakest first; never empty. Preset fuzz has no AVX-512.
[[nodiscard]] std::vector<Isa> supported_isas();

/// The one in use: the fastest supported one unless force_isa chose another. That is the strongest,
/// or the one without BF16 dot products where those are slower than FMAs in FP32: on Intel's CPUs.
[[nodiscard]] Isa current_isa();

/// Makes all kernels of this process use `isa`. Throws Error where the CPU lacks it.
void force_isa(Isa isa);

/// Reads a name, or "auto" (the fastest), and forces it.
void force_isa(std::string_view name);

/// Every name, weakest first: "scalar, avx2, ...".
[[nodiscard]] std::string isa_names();

/// Whether this CPU permutes vectors and adds their integers on units beside those that multiply:
/// AMD's. Intel's share theirs.
[[nodiscard]] bool permutes_beside_products();

namespace detail {
extern std::atomic<bool> converts_to_bf16;
}
/// Whether one instruction rounds a vector of FP32 to BF16: with the sets from avx512vnni on, where
/// the CPU has it. It takes subnormals for zeros. Asked for every vector.
[[nodiscard]] inline bool converts_to_bf16() {
  return detail::converts_to_bf16.load(std::memory_order_relaxed);
}

/// CPU feature flags that matter here and are present: "avx2 fma avx512f avx512_vnni ...".
[[nodiscard]] std::string cpu_features();

}  // namespace ng
