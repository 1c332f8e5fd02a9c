#include "backend/cpu/workspace.h"

#include <new>

namespace ng::cpu {

Workspace::Workspace(Threads threads)
    : threads_(threads),
      memory_(static_cast<std::byte*>(::operator new (bytes(), std::align_val_t{64}))) {}

Workspace::~Workspace() { ::operator delete (memory_, std::align_val_t{64}); }

size_t Workspace::bytes() const {
  return kSharedScratchBytes + static_cast<size_t>(threads_.count) * kWorkerScratchBytes;
}

}  // namespace ng::cpu
