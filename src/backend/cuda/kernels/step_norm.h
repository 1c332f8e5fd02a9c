// The step of precision-aware updates. [backend/step_search.h]
#pragma once

#include "backend/cuda/kernels/update_element.h"

namespace ng::cuda {

/// *alpha of the update, by the weights as they lie there and the scale they get; 0: no step.
void find_step(Stream stream, const Update& op, const UpdateTensors& t, float* alpha);

}  // namespace ng::cuda
