// What looks at the matrices of linear layers while a model trains.
#pragma once

#include "nn/source.h"

namespace ng {

class Linear;
struct BackwardProduct;

/// Hears of what a layer works on in training, as it is before any cast: of each micro-batch once,
/// of the head, where it works through the tokens in pieces, in each piece.
class LinearObserver {
 public:
  virtual ~LinearObserver() = default;
  /// x (T, K), in forward order.
  virtual void input(const Linear& layer, const Source& x) = 0;
  /// dy (T, N), and dx = Q(dy)·Q(W) as it was made, whose y may hold other layers' too.
  virtual void output_gradient(const Linear& layer, const Source& dy,
                               const BackwardProduct& dx) = 0;
  /// dW (N, K) of this micro-batch and those before it.
  virtual void weight_gradient(const Linear& layer, const ConstView& sum) = 0;
};

}  // namespace ng
