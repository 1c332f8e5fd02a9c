#include "base/isa.h"

#include <hwy/highway.h>

#include <algorithm>
#include <array>
#include <atomic>

#include "base/error.h"

namespace ng {
namespace {

struct Row {
  Isa isa;
  std::string_view name;
  int64_t target;  // Highway's bit for the kernels of this instruction set
};

constexpr std::array<Row, 3> kIsas = {{{Isa::scalar, "scalar", HWY_SCALAR},
                                       {Isa::avx2, "avx2", HWY_AVX2},
                                       {Isa::avx512, "avx512", HWY_AVX3}}};

const Row& row_of(Isa isa) {
  return *std::find_if(kIsas.begin(), kIsas.end(), [&](const Row& row) { return row.isa == isa; });
}

// Highway's bit chosen by force_isa, 0 before. hwy::SupportedTargets() would say the same, but asks
// the CPU anew at each call, which costs tens of microseconds in a virtual machine.
std::atomic<int64_t> forced_target = 0;

// What the CPU has, asked once before any force_isa.
int64_t targets_of_this_cpu() {
  static const int64_t targets = hwy::SupportedTargets();
  return targets;
}

bool is_supported(const Row& row) {
  const int64_t targets = targets_of_this_cpu();  // asked even where the answer is known
  return row.isa == Isa::scalar || (targets & row.target) != 0;
}

}  // namespace

std::string_view name_of(Isa isa) { return row_of(isa).name; }

std::vector<Isa> supported_isas() {
  std::vector<Isa> isas;
  for (const Row& row : kIsas)
    if (is_supported(row)) isas.push_back(row.isa);
  return isas;
}

Isa current_isa() {
  const int64_t forced = forced_target.load(std::memory_order_relaxed);
  const int64_t targets = forced != 0 ? forced : targets_of_this_cpu();
  Isa best = Isa::scalar;
  for (const Row& row : kIsas)
    if ((targets & row.target) != 0) best = row.isa;
  return best;
}

void force_isa(Isa isa) {
  const Row& row = row_of(isa);
  if (!is_supported(row))
    throw Error({.place = "--isa",
                 .key = "",
                 .problem = fmt::format("this CPU has no \"{}\"", row.name),
                 .remedy = "scalar always works, auto takes the strongest"});
  hwy::SetSupportedTargetsForTest(row.target);
  hwy::GetChosenTarget().Update(row.target);
  forced_target = row.target;
}

void force_isa(std::string_view name) {
  if (name == "auto") return force_isa(supported_isas().back());
  for (const Row& row : kIsas)
    if (row.name == name) return force_isa(row.isa);
  throw Error({.place = "--isa",
               .key = "",
               .problem = fmt::format("unknown \"{}\"", name),
               .remedy = "scalar avx2 avx512 auto"});
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
  add(__builtin_cpu_supports("avx512vnni"), "avx512vnni");
  return text;
}

}  // namespace ng
