// Rotary positions and (grouped-query) causal attention, FP64 inside, rounded once.
#pragma once

#include "backend/ref/number.h"

namespace ng::ref {

/// table (positions, head_dim): cos of angle i in column i, sin in column head_dim/2 + i; angle =
/// position · theta^(-2i/head_dim). [Su et al. 2021]
void perform(const RopeTable& op);

/// Turns every head of x in place by the angles of its position; `inverse` turns back.
void perform(const Rope& op);

/// out_i = Σ_j softmax_j(q_i·k_j/sqrt(head_dim))·v_j over the keys j <= first + i that document and
/// window leave it; lse_i the log-sum-exp of its scores. Head h reads kv head h / (heads /
/// kv_heads). As BF16 probabilities e^(score - the query's largest) are rounded, not their sum.
void perform(const Attention& op, Scratch& scratch);

/// With P = softmax and D_i = dout_i·out_i: dV = Pᵀ·dout, dS = P∘(dout·Vᵀ - D)/sqrt(head_dim),
/// dq = dS·k, dk = dSᵀ·q; as BF16 the P of dV and the dS of dq and dk are rounded. Rows of dk and
/// dv at kv_length and beyond are left alone. [Dao et al. 2022, appendix B.2]
void perform(const AttentionBackward& op, Scratch& scratch);

}  // namespace ng::ref
