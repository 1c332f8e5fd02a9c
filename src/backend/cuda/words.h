// The words that kernels are written in. One source is compiled by nvcc for cards and by g++ or
// clang for the emulated device (emulated/device.h); what is not among these words does not compile
// there: __shared__ itself, atomics of floating-point numbers, shuffles within parts of a warp.
//
//   __global__ __device__ __launch_bounds__ threadIdx blockIdx blockDim gridDim
//   NG_SHARED(float, tile, 1024);       shared memory of a block
//   NG_SHARED_DYNAMIC(float, rows);     that of LaunchShape::shared
//   __syncthreads __syncwarp __shfl_sync __shfl_xor_sync __shfl_up_sync __shfl_down_sync
//   __ballot_sync __any_sync __all_sync
//   atomicAdd atomicMin atomicMax atomicAnd atomicOr atomicExch atomicCAS, of integers
//   NG_UNROLL                           before a loop over registers, whose indices become
//                                       constants
//   NG_ROLLED                           before a loop whose code is long: it is there once
//   launch<kernel>(stream, {.grid = ..., .block = ..., .shared = ...}, arguments...)
//
// A file with kernels includes no header that needs libfmt, which nvcc does not read, and is
// compiled without contraction: a·b + c is two roundings.
#pragma once

#include "backend/cuda/card.h"
#include "backend/cuda/live.h"

#if defined(__CUDACC__)

#include <cuda_runtime.h>

#define NG_UNROLL _Pragma("unroll")
#define NG_ROLLED _Pragma("unroll 1")
#define NG_SHARED(T, name, count) __shared__ T name[count]
#define NG_SHARED_DYNAMIC(T, name)                              \
  extern __shared__ __align__(16) unsigned char name##_bytes[]; \
  T* const name = reinterpret_cast<T*>(name##_bytes)

namespace ng::cuda {

/// Of a card, on which kernels run one after another.
struct CardStream {
  cudaStream_t stream = nullptr;
  Live* live = nullptr;  ///< of a step that is captured
};
/// Null: operations look at what they are given and launch nothing.
using Stream = CardStream*;

/// Of void(args...). What a launch could not do is in cudaGetLastError().
template <auto kKernel, class... Args>
void launch(Stream stream, const LaunchShape& shape, Args... args) {
  if (stream == nullptr) return;
  if (shape.shared > kDeclaredShared)
    cudaFuncSetAttribute(kKernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                         static_cast<int>(shape.shared));
  kKernel<<<dim3(shape.grid.x, shape.grid.y, shape.grid.z),
            dim3(shape.block.x, shape.block.y, shape.block.z), shape.shared, stream->stream>>>(
      args...);
}

}  // namespace ng::cuda

#else
#include "backend/cuda/emulated/words.h"
#endif

namespace ng::cuda {

/// Of the step that is captured; null: none is.
[[nodiscard]] inline Live* live_of(Stream stream) {
  return stream != nullptr ? stream->live : nullptr;
}
[[nodiscard]] inline StepKey step_key(Stream stream, const RandomKey& key) {
  const Live* const live = live_of(stream);
  return {key, live != nullptr ? live->of(key) : nullptr};
}
/// Null: nothing is captured.
[[nodiscard]] inline const StepNumbers* live_numbers(Stream stream) {
  const Live* const live = live_of(stream);
  return live != nullptr ? live->numbers() : nullptr;
}

}  // namespace ng::cuda
