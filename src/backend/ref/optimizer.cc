#include "backend/ref/optimizer.h"

#include <cmath>

#include "backend/host_step.h"
#include "backend/ref/number.h"

namespace ng::ref {

void perform(const DecideStep& op) { decide_step_on_host(op); }

}  // namespace ng::ref
