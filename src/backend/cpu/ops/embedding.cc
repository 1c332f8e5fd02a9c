#include "backend/cpu/ops/embedding.h"

#include "backend/cpu/ops/blocks.h"
#include "backend/cpu/types.h"
#include "math/exp.h"
#include "math/log.h"
#include "math/sincos.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backend/cpu/ops/embedding.cc"
#include <hwy/foreach_target.h>  // once per instruction set

#include "backend/cpu/simd/kernel-inl.h"

HWY_BEFORE_NAMESPACE();
namespace ng::cpu::HWY_NAMESPACE {

// y (1, cols) = token + position; position may have no rows.
void EmbedRow(View y, ConstView token, ConstView position) {
  WithStored(y, [&](auto in) HWY_ATTR {
    auto* to = in.RowsOf(y).data;
    WithStored(token, [&](auto of_token) HWY_ATTR {
      const auto* from = of_token.RowsOf(token).data;
      if (position.rows == 0) {
        ForLanes(y.cols, [&](int64_t i, auto left)
                             HWY_ATTR { in.Write(in.Read(from + i, left), to + i, left); });
        return;
      }
      WithStored(position, [&](auto of_position) HWY_ATTR {
        const auto* place = of_position.RowsOf(position).data;
        ForLanes(y.cols, [&](int64_t i, auto left) HWY_ATTR {
          in.Write(Add(in.Read(from + i, left), in.Read(place + i, left)), to + i, left);
        });
      });
    });
  });
}

// Columns [col, col + cols) of the whole operation.
void EmbedBackwardStripe(const EmbedBackward& op, int64_t col, int64_t cols) {
  const Rows<float> tokens = op.dtokens.as<float>(), positions = op.dpositions.as<float>();
  WithStored(op.dy, [&](auto in) HWY_ATTR {
    const auto dy = in.RowsOf(op.dy);
    const auto add = [&](float* to, int64_t t) HWY_ATTR {
      const auto* from = dy.row(t) + col;
      ForLanes(cols, [&](int64_t i, auto left) HWY_ATTR {
        Store16(Add(Load16(to + i, left), Load16(from + i, left)), to + i, left);
      });
    };
    for (int64_t t = 0; t < dy.rows; ++t) {
      add(tokens.row(op.ids[static_cast<size_t>(t)]) + col, t);
      if (positions.rows > 0) add(positions.row(op.at.first + t % op.at.length) + col, t);
    }
  });
}

// Turns every head of one row by the angles of one position.
void RopeRow(View row, const float* angles, int head_dim, bool inverse) {
  const int64_t half = head_dim / 2;
  WithStored(row, [&](auto in) HWY_ATTR {
    auto* x = in.RowsOf(row).data;
    ForLanes(half, [&](int64_t i, auto left) HWY_ATTR {
      const F16 cosine = in.Read(angles + i, left);
      F16 sine = in.Read(angles + half + i, left);
      if (inverse) sine = Neg(sine);
      for (int64_t head = 0; head < row.cols; head += head_dim) {
        auto* first = x + head + i;
        auto* second = first + half;
        const F16 a = in.Read(first, left), b = in.Read(second, left);
        in.Write(Sub(Mul(a, cosine), Mul(b, sine)), first, left);
        in.Write(Add(Mul(b, cosine), Mul(a, sine)), second, left);
      }
    });
  });
}

}  // namespace ng::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ng::cpu {
HWY_EXPORT(EmbedRow);
HWY_EXPORT(EmbedBackwardStripe);
HWY_EXPORT(RopeRow);

namespace {

constexpr int64_t kStripe = 64;  // columns of the table one worker adds into

void check_ids(TokenView ids, int64_t vocabulary) {
  const auto known = [&](int32_t id) { return id >= 0 && id < vocabulary; };
  const auto unknown = std::find_if_not(ids.begin(), ids.end(), known);
  NG_CHECK(unknown == ids.end(), *unknown, vocabulary);
}

}  // namespace

void perform(Workspace& workspace, const Embed& op) {
  const auto& [y, ids, tokens, positions, at] = op;
  require_one_type(op.kName, {y});
  require_values(op.kName, {tokens, positions});
  NG_CHECK(y.rows == at.sequences * at.length, y.rows, at.sequences, at.length);
  NG_CHECK(std::ssize(ids) == y.rows && tokens.cols == y.cols, ids.size(), y.rows, tokens.cols);
  NG_CHECK(positions.rows == 0 || at.first + at.length <= positions.rows, positions.rows, at.first,
           at.length);
  check_ids(ids, tokens.rows);
  for_row_blocks(workspace.threads(), y.rows, y.cols, [&](int64_t first, int64_t rows) {
    for (int64_t t = first; t < first + rows; ++t) {
      const bool placed = op.positions.rows > 0;
      HWY_DYNAMIC_DISPATCH(EmbedRow)
      (op.y.slice(t, 1), op.tokens.slice(op.ids[static_cast<size_t>(t)], 1),
       placed ? op.positions.slice(op.at.first + t % op.at.length, 1) : ConstView());
    }
  });
}

void perform(Workspace& workspace, const EmbedBackward& op) {
  const auto& [dtokens, dpositions, dy, ids, at] = op;
  require_fp32(op.kName, {dtokens, dpositions});
  require_values(op.kName, {dy});
  NG_CHECK(dy.rows == at.sequences * at.length, dy.rows, at.sequences, at.length);
  NG_CHECK(std::ssize(ids) == dy.rows && dtokens.cols == dy.cols, ids.size(), dy.rows);
  NG_CHECK(dpositions.rows == 0 || at.first + at.length <= dpositions.rows, dpositions.rows);
  check_ids(ids, dtokens.rows);
  const int64_t stripes = (dy.cols + kStripe - 1) / kStripe;
  parallel_for(workspace.threads(), stripes, [&](int64_t stripe, int) {
    const int64_t col = stripe * kStripe;
    HWY_DYNAMIC_DISPATCH(EmbedBackwardStripe)(op, col, std::min(kStripe, op.dy.cols - col));
  });
}

void perform(Workspace& workspace, const RopeTable& op) {
  require_fp32(op.kName, {op.table});
  const Rows<float> table = op.table.as<float>();
  const int64_t half = table.cols / 2;
  NG_CHECK(table.cols == 2 * half, table.cols);
  constexpr double kTurn = 0x1.45f306dc9c883p-3;  // 1 / 2π
  const double log_theta = math::log(static_cast<double>(op.theta));
  for_row_blocks(workspace.threads(), table.rows, table.cols, [&](int64_t first, int64_t rows) {
    for (int64_t i = 0; i < half; ++i) {
      const double share = -2.0 * static_cast<double>(i) / static_cast<double>(table.cols);
      const double frequency = math::exp(share * log_theta);
      const double turns = math::scaled_frequency(op.scaling, frequency) * kTurn;
      for (int64_t p = first; p < first + rows; ++p) {
        const math::SinCos angle = math::sincos_turns(static_cast<double>(p) * turns);
        table.row(p)[i] = static_cast<float>(angle.cos);
        table.row(p)[half + i] = static_cast<float>(angle.sin);
      }
    }
  });
}

void perform(Workspace& workspace, const Rope& op) {
  const auto& [x, table, at, head_dim, inverse] = op;
  require_one_type(op.kName, {x});
  require_fp32(op.kName, {table});
  NG_CHECK(head_dim > 0 && head_dim % 2 == 0 && x.cols % head_dim == 0, head_dim, x.cols);
  NG_CHECK(x.rows == at.sequences * at.length, x.rows, at.sequences, at.length);
  NG_CHECK(table.cols == head_dim && at.first + at.length <= table.rows, table.cols, table.rows);
  const Rows<const float> angles = table.as<float>();
  for_row_blocks(workspace.threads(), x.rows, x.cols, [&](int64_t first, int64_t rows) {
    for (int64_t t = first; t < first + rows; ++t) {
      HWY_DYNAMIC_DISPATCH(RopeRow)
      (op.x.slice(t, 1), angles.row(op.at.first + t % op.at.length), op.head_dim, op.inverse);
    }
  });
}

}  // namespace ng::cpu
#endif
