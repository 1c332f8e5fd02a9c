// The loss of pairs for backends whose memory the host can read: two numbers a sequence, so one
// definition serves them all.
#pragma once

#include "backend/operations.h"

namespace ng {

/// In FP64, tokens and pairs in their order: the same bits on any number of threads.
void preference_loss_on_host(const PreferenceLoss& op);

}  // namespace ng
