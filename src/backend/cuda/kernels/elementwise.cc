// Operations whose values depend on one place alone, each rounded as in `ref`.
#include <cmath>

#include "backend/cuda/kernels/perform.h"
#include "backend/cuda/kernels/stored.h"
#include "backend/cuda/kernels/values.h"
#include "math/normal.h"

namespace ng::cuda {
namespace {

struct FillEach {
  Target x;
  float value;
  __device__ void operator()(int64_t row, int64_t col) const { x.put(row, col, value); }
};

struct ClearEach {
  uint8_t* bytes;
  __device__ void operator()(int64_t /* row */, int64_t col) const { bytes[col] = 0; }
};

struct CopyEach {
  StoredTensor y;
  StoredSource x;
  __device__ void operator()(int64_t row, int64_t unit) const {
    const int together = y.together();
    for (int64_t col = unit * together; col < unit * together + together && col < y.cols; ++col)
      y.put(row, col, x(row, col));
  }
};

struct AddEach {
  Target y;
  Source a, b;
  __device__ void operator()(int64_t row, int64_t col) const {
    y.put(row, col, a(row, col) + b(row, col));
  }
};

struct CombineEach {
  Target y;
  Source x;
  float a, b;
  __device__ void operator()(int64_t row, int64_t col) const {
    const float scaled = a * x(row, col);
    y.put(row, col, b == 0 ? scaled : scaled + b * y(row, col));
  }
};

struct NormalizeEach {
  Target y;
  Source x;
  const double* sum_of_squares;
  __device__ void operator()(int64_t row, int64_t col) const {
    y.put(row, col, x(row, col) / static_cast<float>(std::sqrt(*sum_of_squares) + 1e-7));
  }
};

struct DrawNormal {
  Target x;
  float deviation;
  RandomKey key;
  __device__ void operator()(int64_t row, int64_t col) const {
    x.put(row, col, math::normal(key, static_cast<uint64_t>(row * x.cols + col), deviation));
  }
};

}  // namespace

void perform(Stream stream, const Fill& op) {
  for_each_place(stream, op.x.rows, op.x.cols, FillEach{target_of("fill", op.x), op.value});
}

void perform(Stream stream, const Clear& op) {
  auto* bytes = reinterpret_cast<uint8_t*>(op.bytes.data());
  for_each_place(stream, 1, static_cast<int64_t>(op.bytes.size()), ClearEach{bytes});
}

void perform(Stream stream, const Copy& op) {
  NG_CHECK(same_shape(op.y, op.x), op.y.rows, op.y.cols, op.x.rows, op.x.cols);
  const StoredTensor y = plain_tensor(Copy::kName, op.y);
  for_each_place(stream, op.y.rows, (op.y.cols + y.together() - 1) / y.together(),
                 CopyEach{y, stored_source(op.x)});
}

void perform(Stream stream, const Add& op) {
  NG_CHECK(same_shape(op.y, op.a) && same_shape(op.y, op.b), op.y.rows, op.y.cols, op.a.rows,
           op.a.cols, op.b.rows, op.b.cols);
  for_each_place(
      stream, op.y.rows, op.y.cols,
      AddEach{target_of("add", op.y), source_of("add", op.a, op.y), source_of("add", op.b, op.y)});
}

void perform(Stream stream, const Combine& op) {
  NG_CHECK(same_shape(op.y, op.x), op.y.rows, op.y.cols, op.x.rows, op.x.cols);
  for_each_place(stream, op.y.rows, op.y.cols,
                 CombineEach{target_of("combine", op.y), source_of("combine", op.x), op.a, op.b});
}

void perform(Stream stream, const Normalize& op) {
  NG_CHECK(same_shape(op.y, op.x), op.y.rows, op.y.cols, op.x.rows, op.x.cols);
  for_each_place(
      stream, op.y.rows, op.y.cols,
      NormalizeEach{target_of("normalize", op.y), source_of("normalize", op.x), op.sum_of_squares});
}

void perform(Stream stream, const FillNormal& op) {
  for_each_place(stream, op.x.rows, op.x.cols,
                 DrawNormal{target_of("fill_normal", op.x), op.deviation, op.key});
}

}  // namespace ng::cuda
