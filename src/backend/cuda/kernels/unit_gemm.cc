// y (M, N) = factor · A (M, K) · B (N, K)ᵀ + bias on a card's matrix units. Operands are held as
// cuBLASLt takes them (backend/cuda/route.h), in scratch memory unless they lie so already, and in
// as many pieces of rows as it needs. What the library leaves undone is done to its sums: late
// scales, bias, a sum that goes on, a rounding. Results stay within a bound of `ref`'s, for the
// order of sums is the library's; sums of integers have its bits.
// What rows touch that do not fold is computed by gemm.cc.
#include "backend/cuda/kernels/unit_gemm.h"

#include <algorithm>
#include <vector>

#include "backend/cuda/kernels/held_operand.h"

namespace ng::cuda {
namespace {

/// Scales of an operand's rows that are not the library's.
struct Late {
  bool is_left = false;
  const float* references = nullptr;  ///< of what folds
  [[nodiscard]] __device__ float of(const CardOperand& x, int64_t row) const {
    if (!is_left) return 1.0f;
    return references != nullptr ? references[row] : x.late_scale(row);
  }
};

/// Of the sums of a piece.
struct FinishEach {
  GemmJob g;
  LeftOut left_out;
  const void* sums;  ///< FP32 or INT32
  bool are_integers;
  int64_t leading, row0, col0;
  Late a, b;
  __device__ void operator()(int64_t i, int64_t j) const {
    const int64_t row = row0 + i, col = col0 + j, at = i * leading + j;
    if (left_out.has(row, col)) return;
    float acc = are_integers ? static_cast<float>(static_cast<const int32_t*>(sums)[at])
                             : static_cast<const float*>(sums)[at];
    if (g.into == Into::carry) acc = g.y(row, col) + acc;
    put_value(g, row, col, acc * (a.of(g.a, row) * b.of(g.b, col) * g.factor));
  }
};

class UnitGemm {
 public:
  UnitGemm(Stream stream, const Gemm& op, const GemmJob& job, const RouteChoice& choice,
           const WithUnits& with)
      : stream_(stream),
        job_(job),
        units_(*with.units),
        room_(with.scratch),
        a_(held_operand(job.a, op.a->spec.cast, choice.a, choice.route == Route::folded, room_)),
        b_(held_operand(job.b, op.b->spec.cast, choice.b, choice.route == Route::folded, room_)),
        are_integers_(choice.route == Route::int8),
        writes_y_(can_write_y()) {}

  /// False: the library lacks a part of it, and nothing was done.
  bool run() {
    int64_t rows = job_.y.rows, cols = job_.y.cols;
    for (at_ = place(rows, cols); !at_.is_there; at_ = place(rows, cols)) {
      if (std::max(rows, cols) <= kPieceRows) throw Unsupported("cuda: gemm of so long rows");
      const bool halves_rows =
          cols <= kPieceRows || (rows > kPieceRows && bytes_of(a_, rows) >= bytes_of(b_, cols));
      int64_t& halved = halves_rows ? rows : cols;
      halved = up_to(halved / 2, kPieceRows);
    }
    if (!takes_pieces(rows, cols)) return false;
    find_scales(stream_, a_);
    find_scales(stream_, b_);
    // A piece of B is held once for all of A, and A once where it is one piece.
    MatmulOperand left, right;
    for (int64_t col = 0; col < job_.y.cols; col += cols)
      for (int64_t row = 0; row < job_.y.rows; row += rows) {
        const Piece piece{row, std::min(rows, job_.y.rows - row), col,
                          std::min(cols, job_.y.cols - col)};
        if (row == 0) right = hold(stream_, b_, col, piece.cols, at_.b, at_.b_scales);
        if (col == 0 || rows < job_.y.rows)
          left = hold(stream_, a_, row, piece.rows, at_.a, at_.a_scales);
        multiply(piece, left, right);
      }
    return true;
  }
  [[nodiscard]] LeftOut left_out() const { return {a_.left_out, b_.left_out}; }

 private:
  /// Of y.
  struct Piece {
    int64_t row = 0, rows = 0, col = 0, cols = 0;
  };
  /// Where what a piece needs lies, if there is room.
  struct Places {
    bool is_there = false;
    std::byte *a = nullptr, *b = nullptr, *a_scales = nullptr, *b_scales = nullptr, *sums = nullptr;
  };

  static size_t bytes_of(const HeldOperand& x, int64_t rows) {
    return x.bytes(rows) + x.scale_bytes(rows);
  }
  [[nodiscard]] Places place(int64_t rows, int64_t cols) const {
    Room room = room_;
    const int64_t sums = writes_y_ ? 0 : a_.rows_held(rows) * leading_of(cols);
    Places made{.a = room.take(a_.bytes(rows)),
                .b = room.take(b_.bytes(cols)),
                .a_scales = room.take(a_.scale_bytes(rows)),
                .b_scales = room.take(b_.scale_bytes(cols)),
                .sums = room.take(static_cast<size_t>(sums) * sizeof(float))};
    made.is_there = room.holds_all();
    return made;
  }
  [[nodiscard]] int64_t leading_of(int64_t cols) const { return up_to(b_.rows_held(cols), 4); }

  /// Matrices lie by columns there: yᵀ (N, M) = B · Aᵀ, and B comes first. BF16 is read where it
  /// lies, without what fills K up.
  [[nodiscard]] Matmul product_of(const Piece& piece) const {
    const bool reads_source =
        a_.held.type == MatmulType::bf16 && (a_.in_place != nullptr || b_.in_place != nullptr);
    return {.m = b_.rows_held(piece.cols),
            .n = a_.rows_held(piece.rows),
            .k = reads_source ? job_.a.k : a_.k_held()};
  }

  /// Results are y's.
  void write_y(const Piece& piece, Matmul* product) const {
    const Target& y = job_.y;
    const int64_t at = piece.row * y.stride + piece.col;
    product->d_type = y.is_bf16 ? MatmulType::bf16 : MatmulType::fp32;
    product->d_leading = y.stride;
    product->d = static_cast<std::byte*>(y.data) + at * (y.is_bf16 ? 2 : 4);
    product->add = job_.into != Into::overwrite;
    product->alpha = job_.factor;
  }
  /// Whether nothing is left to do to a product's results; of pieces too, whose rows are multiples
  /// of all that the library asks for.
  [[nodiscard]] bool can_write_y() const {
    const Piece all{0, job_.y.rows, 0, job_.y.cols};
    Matmul whole = product_of(all);
    const bool is_left = a_.is_late || b_.is_late || job_.bias.rows > 0 || are_integers_ ||
                         (job_.is_rounded && !job_.y.is_bf16);
    if (is_left || whole.m != all.cols || whole.n != all.rows) return false;
    write_y(all, &whole);
    whole.a = {
        .type = b_.held.type, .transposed = true, .leading = whole.k, .scale = b_.held.scale};
    whole.b = {.type = a_.held.type, .leading = whole.k, .scale = a_.held.scale};
    return units_.refusal(whole).empty();
  }

  /// What the library is given for a piece.
  [[nodiscard]] Matmul product_of(const Piece& piece, const MatmulOperand& left,
                                  const MatmulOperand& right) const {
    Matmul product = product_of(piece);
    product.a = right;
    product.b = left;
    product.a.transposed = !product.a.transposed;
    if (writes_y_) {
      write_y(piece, &product);
      return product;
    }
    product.d_type = are_integers_ ? MatmulType::int32 : MatmulType::fp32;
    product.d_leading = leading_of(piece.cols);
    product.d = at_.sums;
    return product;
  }

  /// Whether the library has an algorithm for each size of a piece, where it lies.
  [[nodiscard]] bool takes_pieces(int64_t rows, int64_t cols) {
    // Of a whole piece, and of a last that is less.
    const auto starts = [](int64_t all, int64_t piece) {
      std::vector<int64_t> of = {0};
      if (const int64_t last = (all - 1) / piece * piece; last > 0) of.push_back(last);
      return of;
    };
    for (const int64_t row : starts(job_.y.rows, rows))
      for (const int64_t col : starts(job_.y.cols, cols)) {
        const Piece piece{row, std::min(rows, job_.y.rows - row), col,
                          std::min(cols, job_.y.cols - col)};
        Matmul product = product_of(piece, described(a_, row), described(b_, col));
        for (MatmulOperand* x : {&product.a, &product.b})
          if (x->scale != MatmulScale::none) x->data = nullptr;  // whose scales lie nowhere yet
        if (!units_.refusal(product).empty()) return false;
      }
    return true;
  }

  void multiply(const Piece& piece, const MatmulOperand& left, const MatmulOperand& right) {
    const Matmul product = product_of(piece, left, right);
    units_.multiply(product);
    if (writes_y_) return;
    for_each_place(stream_, piece.rows, piece.cols,
                   FinishEach{.g = job_,
                              .left_out = left_out(),
                              .sums = at_.sums,
                              .are_integers = are_integers_,
                              .leading = product.d_leading,
                              .row0 = piece.row,
                              .col0 = piece.col,
                              .a = {a_.is_late, a_.references},
                              .b = {b_.is_late, b_.references}});
  }

  Stream stream_;
  const GemmJob& job_;
  Units& units_;
  Room room_;
  HeldOperand a_, b_;
  bool are_integers_;
  Places at_{};    ///< of a piece
  bool writes_y_;  ///< nothing is left to do to a product's results
};

}  // namespace

bool multiply_by_units(Stream stream, const Gemm& op, const GemmJob& job, const WithUnits& with) {
  if (with.units == nullptr) return false;
  const RouteChoice choice =
      choose_route(*with.units, {.a = op.a->spec, .b = op.b->spec, .sum = op.sum});
  if (stream == nullptr || choice.route == Route::kernel) return false;
  UnitGemm gemm(stream, op, job, choice, with);
  if (!gemm.run()) return false;
  if (choice.route == Route::folded) multiply_left_out(stream, op, job, gemm.left_out());
  return true;
}

}  // namespace ng::cuda
