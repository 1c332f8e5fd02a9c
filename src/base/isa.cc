#include "base/isa.h"

#include <cpuid.h>
#include <hwy/highway.h>

#include <algorithm>
#include <array>
#include <atomic>

#include "base/amx.h"
#include "base/bf16_dot.h"
#include "base/error.h"

namespace ng {
namespace {

struct Row {
  Isa isa;
  std::string_view name;
  int64_t target;      // Highway's bit for the kernels of this instruction set
  bool (*has_more)();  // what the CPU needs besides
};

bool nothing_more() { return true; }
// CPUID 7.1, a bit of EAX. Clang 14 has no names for all of them.
bool has_feature(int bit) {
  unsigned eax = 0, ebx = 0, ecx = 0, edx = 0;
  return __get_cpuid_count(7, 1, &eax, &ebx, &ecx, &edx) != 0 && (eax >> bit & 1) != 0;
}
bool has_avx_vnni() { return has_feature(4); }
bool has_avx512_vnni() { return __builtin_cpu_supports("avx512vnni"); }
bool has_avx512_bf16() { return has_feature(5); }
// Asked once, for force_isa is called often and asking costs as below.
bool has_conversion_to_bf16() {
  static const bool has = [] {
    __builtin_cpu_init();
    return has_avx512_vnni() && has_avx512_bf16();
  }();
  return has;
}
bool has_exact_bf16_dots() { return has_conversion_to_bf16() && bf16_dots_are_fmas(); }

bool has_amx() { return has_avx512_vnni() && amx_state() == AmxState::works; }

constexpr std::array<Row, 7> kIsas = {
    {{Isa::scalar, "scalar", HWY_SCALAR, nothing_more},
     {Isa::avx2, "avx2", HWY_AVX2, nothing_more},
     {Isa::avxvnni, "avxvnni", HWY_AVX2, has_avx_vnni},
     {Isa::avx512, "avx512", HWY_AVX3, nothing_more},
     {Isa::avx512vnni, "avx512vnni", HWY_AVX3, has_avx512_vnni},
     {Isa::avx512bf16, "avx512bf16", HWY_AVX3, has_exact_bf16_dots},
     {Isa::avx512amx, "avx512amx", HWY_AVX3, has_amx}}};

const Row& row_of(Isa isa) { return kIsas[static_cast<size_t>(isa)]; }

// Asked once, before any force_isa: Highway then names only what was forced, and asking the CPU
// costs tens of microseconds in a virtual machine.
const std::vector<Isa>& isas_of_this_cpu() {
  static const std::vector<Isa> isas = [] {
    __builtin_cpu_init();
    const int64_t targets = hwy::SupportedTargets() & HWY_TARGETS;  // that are compiled
    std::vector<Isa> found;
    for (const Row& row : kIsas)
      if (row.isa == Isa::scalar || ((targets & row.target) != 0 && row.has_more()))
        found.push_back(row.isa);
    return found;
  }();
  return isas;
}

// The strongest, but for BF16 dot products on Intel's CPUs: Sapphire Rapids makes half as many
// products by them as by FMAs in FP32, AMD's make twice as many. The bits are the same.
Isa fastest_isa() {
  const Isa strongest = isas_of_this_cpu().back();
  const bool is_slow = strongest == Isa::avx512bf16 && __builtin_cpu_is("intel") != 0;
  return is_slow ? Isa::avx512vnni : strongest;
}

constexpr int kNotForced = -1;
std::atomic<int> forced_isa = kNotForced;

}  // namespace

std::atomic<bool> detail::converts_to_bf16 = has_conversion_to_bf16();

std::string_view name_of(Isa isa) { return row_of(isa).name; }

std::vector<Isa> supported_isas() { return isas_of_this_cpu(); }

Isa current_isa() {
  const int forced = forced_isa.load(std::memory_order_relaxed);
  return forced == kNotForced ? fastest_isa() : static_cast<Isa>(forced);
}

void force_isa(Isa isa) {
  const Row& row = row_of(isa);
  const std::vector<Isa>& isas = isas_of_this_cpu();
  if (std::find(isas.begin(), isas.end(), isa) == isas.end())
    throw Error({.place = "--isa",
                 .problem = fmt::format("this CPU has no \"{}\"", row.name),
                 .remedy = "scalar always works, auto takes the fastest"});
  hwy::SetSupportedTargetsForTest(row.target);
  hwy::GetChosenTarget().Update(row.target);
  forced_isa = static_cast<int>(isa);
  detail::converts_to_bf16 = isa >= Isa::avx512vnni && has_conversion_to_bf16();
}

void force_isa(std::string_view name) {
  if (name == "auto") return force_isa(fastest_isa());
  for (const Row& row : kIsas)
    if (row.name == name) return force_isa(row.isa);
  throw Error({.place = "--isa",
               .problem = fmt::format("unknown \"{}\"", name),
               .remedy = isa_names() + ", auto"});
}

std::string isa_names() {
  std::string names;
  for (const Row& row : kIsas) names += (names.empty() ? "" : ", ") + std::string(row.name);
  return names;
}

bool permutes_beside_products() {
  __builtin_cpu_init();
  return __builtin_cpu_is("amd");
}

std::string cpu_features() {
  std::string text;
  const auto add = [&](bool present, const char* name) {
    if (!present) return;
    if (!text.empty()) text += ' ';
    text += name;
  };
  __builtin_cpu_init();
  add(__builtin_cpu_supports("avx2"), "avx2");
  add(__builtin_cpu_supports("fma"), "fma");
  add(__builtin_cpu_supports("avx512f"), "avx512f");
  add(__builtin_cpu_supports("avx512bw"), "avx512bw");
  add(__builtin_cpu_supports("avx512vbmi"), "avx512vbmi");
  add(has_avx_vnni(), "avxvnni");
  add(has_avx512_vnni(), "avx512vnni");
  add(has_avx512_bf16(), "avx512bf16");
  return text;
}

}  // namespace ng
