// Work is cut into items whose borders do not depend on the thread count and handed out
// dynamically, so any number of threads gives the same bits and a busy core only slows its share.
#pragma once

#include <omp.h>

#include <cstdint>
#include <exception>

namespace ng {

/// How many threads an operation may use.
struct Threads {
  int count = 1;
};

/// Number of cores this process may run on.
int available_cores();

/// Calls body(item, worker) for every item in [0, items). worker in [0, threads.count) says whose
/// scratch may be used. The first exception thrown by a body is rethrown here.
template <class Body>
void parallel_for(Threads threads, int64_t items, const Body& body) {
  if (threads.count <= 1 || items <= 1) {
    for (int64_t item = 0; item < items; ++item) body(item, 0);
    return;
  }
  std::exception_ptr failure;
#pragma omp parallel for schedule(dynamic) num_threads(threads.count)
  for (int64_t item = 0; item < items; ++item) {
    try {
      body(item, omp_get_thread_num());
    } catch (...) {
#pragma omp critical(ng_parallel_for_failure)
      if (!failure) failure = std::current_exception();
    }
  }
  if (failure) std::rethrow_exception(failure);
}

}  // namespace ng
