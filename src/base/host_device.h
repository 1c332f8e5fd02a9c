// NG_HD marks inline element rules that g++, clang and nvcc compile for host and device alike.
#pragma once

#if defined(__CUDACC__)
#define NG_HD __host__ __device__
#else
#define NG_HD
#endif
