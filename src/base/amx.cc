#include "base/amx.h"

#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/tile_check.h"
#include "base/tiles.h"

namespace ng {
namespace {

// State components of XSAVE: the configuration of tiles, and their contents.
constexpr int kConfigState = 17, kDataState = 18;

bool has_bit(uint32_t word, int bit) { return (word >> bit & 1) != 0; }

// What the operating system keeps when threads take turns.
[[gnu::target("xsave")]] uint64_t kept_states() {
  uint32_t low = 0, high = 0;
  __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  return low | uint64_t{high} << 32;
}

bool is_present() {
  constexpr int kOsxsave = 27, kBf16 = 22, kTile = 24, kInt8 = 25;  // of CPUID 1 ECX and 7.0 EDX
  unsigned eax = 0, ebx = 0, ecx = 0, edx = 0;
  if (__get_cpuid(1, &eax, &ebx, &ecx, &edx) == 0 || !has_bit(ecx, kOsxsave)) return false;
  if (__get_cpuid_count(7, 0, &eax, &ebx, &ecx, &edx) == 0) return false;
  const uint64_t kept = kept_states();
  return has_bit(edx, kBf16) && has_bit(edx, kTile) && has_bit(edx, kInt8) &&
         (kept >> kConfigState & 1) != 0 && (kept >> kDataState & 1) != 0;
}

// Linux gives the room for tiles to processes that ask for it; children inherit the permission.
bool is_permitted() {
  constexpr long kRequestPermission = 0x1023;  // ARCH_REQ_XCOMP_PERM
  return syscall(SYS_arch_prctl, kRequestPermission, kDataState) == 0;
}

AmxState asked() {
  if (!is_present()) return AmxState::absent;
  if (!is_permitted()) return AmxState::refused;
  AmxTiles tiles;
  return sums_as_defined(tiles) ? AmxState::works : AmxState::differs;
}

}  // namespace

AmxState amx_state() {
  static const AmxState state = asked();
  return state;
}

std::string_view text_of(AmxState state) {
  switch (state) {
    case AmxState::absent:
      return "not on this CPU";
    case AmxState::refused:
      return "on this CPU, but the system refuses it";
    case AmxState::differs:
      return "on this CPU, but it sums otherwise than defined: not used";
    case AmxState::works:
      return "tried against its definition";
  }
  return {};
}

}  // namespace ng
