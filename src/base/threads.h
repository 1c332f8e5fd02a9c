// Work is cut into items whose borders do not depend on the thread count and handed out
// dynamically, so any number of threads gives the same bits and a busy core only slows its share.
#pragma once

#include <cstdint>

namespace ng {

/// How many threads an operation may use.
struct Threads {
  int count = 1;
};

/// Number of cores this process may run on.
int available_cores();

namespace detail {

/// Calls one item of a body whose type is erased.
using ItemCall = void (*)(const void* body, int64_t item, int worker);
void run_items(Threads threads, int64_t items, ItemCall call, const void* body);

}  // namespace detail

/// Calls body(item, worker) for every item in [0, items). worker in [0, threads.count) says whose
/// scratch may be used. The first exception thrown by a body is rethrown here, after the others
/// have ended. Not to be called from a body.
template <class Body>
void parallel_for(Threads threads, int64_t items, const Body& body) {
  if (threads.count <= 1 || items <= 1) {
    for (int64_t item = 0; item < items; ++item) body(item, 0);
    return;
  }
  const auto call = [](const void* erased, int64_t item, int worker) {
    (*static_cast<const Body*>(erased))(item, worker);
  };
  detail::run_items(threads, items, call, &body);
}

}  // namespace ng
