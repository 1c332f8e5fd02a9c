// The backends that a program has.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string_view>

#include "backend/backend.h"

namespace ng {

/// What a backend is made by.
struct BackendWish {
  Threads threads;
  uint64_t thread_order = 0;  ///< but where has_thread_order
  int device = 0;             ///< of those of this host: a card, if it is one
};

struct BackendRow {
  std::string_view name;
  std::unique_ptr<Backend> (*make)(const BackendWish& wish);
  /// A seed draws the order in which threads go on, on which no result depends: an emulated card.
  bool has_thread_order = false;
  std::string_view cards = {};  ///< that its kernels are compiled for: "80,89,90a"
};

/// One line per backend. A program that is linked with another definition of this has others.
[[nodiscard]] std::span<const BackendRow> backend_rows();

}  // namespace ng
