#include "backend/host_step.h"

#include <limits>

#include "format/codec.h"

namespace ng {

float largest_of_moment(const Stored& moment) {
  if (!moment || !moment.cast.is_unscaled()) return std::numeric_limits<float>::max();
  return max_value(*moment.cast.element);
}

}  // namespace ng
