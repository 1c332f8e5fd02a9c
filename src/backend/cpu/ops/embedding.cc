#include "backend/cpu/ops/embedding.h"

#include "backend/cpu/ops/blocks.h"
#include "math/exp.h"
#include "math/log.h"
#include "math/sincos.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backend/cpu/ops/embedding.cc"
#include <hwy/foreach_target.h>  // once per instruction set

#include "backend/cpu/simd/kernel-inl.h"

HWY_BEFORE_NAMESPACE();
namespace ng::cpu::HWY_NAMESPACE {

// y = token + position, position may be null.
void EmbedRow(float* y, const float* token, const float* position, int64_t cols, Compute compute) {
  WithCompute(compute, [&](auto in) HWY_ATTR {
    ForLanes(cols, [&](int64_t i, auto left) HWY_ATTR {
      F16 v = in.Read(token + i, left);
      if (position != nullptr) v = Add(v, in.Read(position + i, left));
      in.Write(v, y + i, left);
    });
  });
}

// to += from
void AddRow(float* to, const float* from, int64_t cols) {
  ForLanes(cols, [&](int64_t i, auto left) HWY_ATTR {
    Store16(Add(Load16(to + i, left), Load16(from + i, left)), to + i, left);
  });
}

// Turns every head of one row by the angles of one position.
void RopeRow(float* x, const float* angles, int heads, int head_dim, bool inverse,
             Compute compute) {
  const int half = head_dim / 2;
  WithCompute(compute, [&](auto in) HWY_ATTR {
    for (int h = 0; h < heads; ++h) {
      float* first = x + static_cast<int64_t>(h) * head_dim;
      float* second = first + half;
      ForLanes(half, [&](int64_t i, auto left) HWY_ATTR {
        const F16 a = in.Read(first + i, left), b = in.Read(second + i, left);
        const F16 cosine = in.Read(angles + i, left);
        F16 sine = in.Read(angles + half + i, left);
        if (inverse) sine = Neg(sine);
        in.Write(Sub(Mul(a, cosine), Mul(b, sine)), first + i, left);
        in.Write(Add(Mul(b, cosine), Mul(a, sine)), second + i, left);
      });
    }
  });
}

}  // namespace ng::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ng::cpu {
HWY_EXPORT(EmbedRow);
HWY_EXPORT(AddRow);
HWY_EXPORT(RopeRow);

namespace {

constexpr int64_t kStripe = 64;  // columns of the table one worker adds into

void check_ids(TokenView ids, int64_t vocabulary) {
  const auto known = [&](int32_t id) { return id >= 0 && id < vocabulary; };
  const auto unknown = std::find_if_not(ids.begin(), ids.end(), known);
  NG_CHECK(unknown == ids.end(), *unknown, vocabulary);
}

}  // namespace

void embed(Workspace& workspace, View y, TokenView ids, ConstView tokens, ConstView positions,
           const Positions& at, Compute compute) {
  NG_CHECK(y.rows == at.sequences * at.length, y.rows, at.sequences, at.length);
  NG_CHECK(std::ssize(ids) == y.rows && tokens.cols == y.cols, ids.size(), y.rows, tokens.cols);
  NG_CHECK(positions.rows == 0 || at.first + at.length <= positions.rows, positions.rows, at.first,
           at.length);
  check_ids(ids, tokens.rows);
  for_row_blocks(workspace.threads(), y.rows, y.cols, [&](int64_t first, int64_t rows) {
    for (int64_t t = first; t < first + rows; ++t) {
      const float* position =
          positions.rows > 0 ? positions.row(at.first + t % at.length) : nullptr;
      const float* token = tokens.row(ids[static_cast<size_t>(t)]);
      HWY_DYNAMIC_DISPATCH(EmbedRow)(y.row(t), token, position, y.cols, compute);
    }
  });
}

void embed_backward(Workspace& workspace, View dtokens, View dpositions, ConstView dy,
                    TokenView ids, const Positions& at) {
  NG_CHECK(dy.rows == at.sequences * at.length, dy.rows, at.sequences, at.length);
  NG_CHECK(std::ssize(ids) == dy.rows && dtokens.cols == dy.cols, ids.size(), dy.rows);
  NG_CHECK(dpositions.rows == 0 || at.first + at.length <= dpositions.rows, dpositions.rows);
  check_ids(ids, dtokens.rows);
  const int64_t stripes = (dy.cols + kStripe - 1) / kStripe;
  parallel_for(workspace.threads(), stripes, [&](int64_t stripe, int) {
    const int64_t col = stripe * kStripe, cols = std::min(kStripe, dy.cols - col);
    const auto add_row = HWY_DYNAMIC_DISPATCH(AddRow);
    for (int64_t t = 0; t < dy.rows; ++t) {
      const float* from = dy.row(t) + col;
      add_row(dtokens.row(ids[static_cast<size_t>(t)]) + col, from, cols);
      if (dpositions.rows > 0) add_row(dpositions.row(at.first + t % at.length) + col, from, cols);
    }
  });
}

void rope_table(Workspace& workspace, View table, float theta) {
  const int64_t half = table.cols / 2;
  NG_CHECK(table.cols == 2 * half, table.cols);
  constexpr double kTurn = 0x1.45f306dc9c883p-3;  // 1 / 2π
  const double log_theta = math::log(static_cast<double>(theta));
  for_row_blocks(workspace.threads(), table.rows, table.cols, [&](int64_t first, int64_t rows) {
    for (int64_t i = 0; i < half; ++i) {
      const double share = -2.0 * static_cast<double>(i) / static_cast<double>(table.cols);
      const double turns = math::exp(share * log_theta) * kTurn;
      for (int64_t p = first; p < first + rows; ++p) {
        const math::SinCos angle = math::sincos_turns(static_cast<double>(p) * turns);
        table.row(p)[i] = static_cast<float>(angle.cos);
        table.row(p)[half + i] = static_cast<float>(angle.sin);
      }
    }
  });
}

void rope(Workspace& workspace, View x, ConstView table, const Positions& at, int head_dim,
          bool inverse, Compute compute) {
  NG_CHECK(head_dim > 0 && head_dim % 2 == 0 && x.cols % head_dim == 0, head_dim, x.cols);
  NG_CHECK(x.rows == at.sequences * at.length, x.rows, at.sequences, at.length);
  NG_CHECK(table.cols == head_dim && at.first + at.length <= table.rows, table.cols, table.rows);
  const int heads = static_cast<int>(x.cols / head_dim);
  for_row_blocks(workspace.threads(), x.rows, x.cols, [&](int64_t first, int64_t rows) {
    for (int64_t t = first; t < first + rows; ++t) {
      const float* angles = table.row(at.first + t % at.length);
      HWY_DYNAMIC_DISPATCH(RopeRow)(x.row(t), angles, heads, head_dim, inverse, compute);
    }
  });
}

}  // namespace ng::cpu
#endif
