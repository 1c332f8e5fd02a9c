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
//   mma_bf16 ldmatrix ldmatrix_trans    of all lanes of a warp: matrix units, and their factors
//   exp2_approx
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

/// 2^x to 2^-22 of itself, below the normal numbers 0. [PTX ISA 9.0, ex2]
__device__ inline float exp2_approx(float x) {
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

// [PTX ISA 9.0, "Matrix multiply-accumulate operation using mma instruction", m16n8k16, and
// ldmatrix; kernels/fragments.h says which lane holds what]
__device__ inline void mma_bf16(float (&c)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1) {
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 "
      "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
      : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}
__device__ inline void ldmatrix(uint32_t (&r)[4], const Quad* row) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
               : "r"(static_cast<uint32_t>(__cvta_generic_to_shared(row)))
               : "memory");
}
__device__ inline void ldmatrix_trans(uint32_t (&r)[4], const Quad* row) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
               : "r"(static_cast<uint32_t>(__cvta_generic_to_shared(row)))
               : "memory");
}

}  // namespace ng::cuda

#else
#include "backend/cuda/emulated/matrix_words.h"
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
