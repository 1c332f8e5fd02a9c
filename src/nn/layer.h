// A layer maps the residual stream x (T, C) to y (T, C) and its gradient back. What x is stored as,
// FP32 or BF16, y and all in between are stored as too.
#pragma once

#include <memory>
#include <vector>

#include "nn/batch.h"
#include "nn/linear.h"
#include "run/run.h"

namespace ng {

class Layer {
 public:
  virtual ~Layer() = default;
  /// Pushes what backward needs, unless run.saving() is off.
  [[nodiscard]] virtual Tensor forward(Run& run, const Tensor& x, const Batch& batch) = 0;
  /// Pops what forward pushed; dy, of x's type, becomes dx in place.
  virtual void backward(Run& run, const View& dy, const Batch& batch) = 0;
  /// Its linear layers, in the order of the forward pass.
  virtual void collect(std::vector<Linear*>& linears) = 0;
};

/// Layers one after the other.
class Chain final : public Layer {
 public:
  void add(std::unique_ptr<Layer> layer) { layers_.push_back(std::move(layer)); }
  [[nodiscard]] Tensor forward(Run& run, const Tensor& x, const Batch& batch) override;
  void backward(Run& run, const View& dy, const Batch& batch) override {
    backward(run, dy, batch, [](size_t /*layer*/) {});
  }
  /// done(i) after the backward pass of layer i.
  template <class Done>
  void backward(Run& run, const View& dy, const Batch& batch, const Done& done) {
    for (size_t i = layers_.size(); i-- > 0;) {
      layers_[i]->backward(run, dy, batch);
      done(i);
    }
  }
  void collect(std::vector<Linear*>& linears) override;

 private:
  std::vector<std::unique_ptr<Layer>> layers_;
};

/// Keeps only its input and runs the inner forward again before the inner backward: the same bits,
/// less memory, one more forward pass.
class Recompute final : public Layer {
 public:
  explicit Recompute(std::unique_ptr<Layer> inner) : inner_(std::move(inner)) {}
  [[nodiscard]] Tensor forward(Run& run, const Tensor& x, const Batch& batch) override;
  void backward(Run& run, const View& dy, const Batch& batch) override;
  void collect(std::vector<Linear*>& linears) override { inner_->collect(linears); }

 private:
  std::unique_ptr<Layer> inner_;
};

}  // namespace ng
