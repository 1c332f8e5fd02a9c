#include "base/temporaries.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <utility>

#include "base/files.h"

namespace ng {
namespace {

constexpr size_t kSlots = 16, kSlotBytes = 4096;
struct Slot {
  std::atomic<bool> claimed = false;
  std::atomic<bool> holds_name = false;
  char name[kSlotBytes] = {};
  int lock = -1;  ///< of a folder: tells who looks for abandoned ones that it is in use
};
std::array<Slot, kSlots> slots;

/// Removes the files of a folder, as far as they can be; readdir() would take memory, which no
/// handler may. Returns how many.
int empty_folder(int folder) noexcept {
  alignas(dirent64) char entries[4096];
  int removed = 0;
  ::lseek(folder, 0, SEEK_SET);
  for (ssize_t bytes = 0; (bytes = ::getdents64(folder, entries, sizeof(entries))) > 0;) {
    for (ssize_t at = 0; at < bytes;) {
      const auto* const entry = reinterpret_cast<const dirent64*>(entries + at);
      if (::unlinkat(folder, entry->d_name, 0) == 0) ++removed;
      at += entry->d_reclen;
    }
  }
  return removed;
}

void remove_folder(const char* name) noexcept {
  const int folder = ::open(name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
  if (folder < 0) return;
  while (empty_folder(folder) > 0) continue;  // what is removed may hide what comes behind it
  ::close(folder);
  ::rmdir(name);
}

}  // namespace

NotedTemporary::NotedTemporary(const std::string& name) {
  if (name.size() >= kSlotBytes) return;
  for (size_t i = 0; i < kSlots; ++i) {
    Slot& slot = slots[i];
    if (slot.claimed.exchange(true)) continue;
    std::memcpy(slot.name, name.c_str(), name.size() + 1);
    slot.lock = ::open(slot.name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (slot.lock >= 0) (void)::flock(slot.lock, LOCK_EX | LOCK_NB);
    slot.holds_name = true;
    slot_ = static_cast<int>(i);
    return;
  }
}

NotedTemporary& NotedTemporary::operator=(NotedTemporary&& other) noexcept {
  if (this != &other) {
    forget();
    slot_ = std::exchange(other.slot_, -1);
  }
  return *this;
}

void NotedTemporary::forget() noexcept {
  if (slot_ < 0) return;
  Slot& slot = slots[static_cast<size_t>(std::exchange(slot_, -1))];
  slot.holds_name = false;
  if (slot.lock >= 0) ::close(std::exchange(slot.lock, -1));
  slot.claimed = false;
}

void unlink_temporaries() noexcept {
  for (const Slot& slot : slots)
    if (slot.holds_name && ::unlink(slot.name) < 0 && (errno == EISDIR || errno == EPERM))
      remove_folder(slot.name);
}

}  // namespace ng
