// A layer maps the residual stream x (T, C) to y (T, C) and its gradient back. What x is stored as,
// FP32 or BF16, y and all in between are stored as too.
#pragma once

#include <memory>
#include <vector>

#include "nn/batch.h"
#include "nn/linear.h"
#include "run/run.h"

namespace ng {

/// The gradient of the residual stream, on its way back through layers.
struct ResidualGradient {
  View values;
  AmaxSlot amax;                   ///< of the values, where their reader reads it
  bool is_read_with_amax = false;  ///< by who gets what a layer makes of it

  /// Room for that of a layer's dx, which it puts in the place of amax.
  [[nodiscard]] AmaxSlot next_slot(Run& run) const { return {run, is_read_with_amax}; }
};

class Layer {
 public:
  virtual ~Layer() = default;
  /// Pushes what backward needs, unless run.saving() is off.
  [[nodiscard]] virtual Tensor forward(Run& run, const Tensor& x, const Batch& batch) = 0;
  /// Pops what forward pushed; dy, of x's type, becomes dx in place.
  virtual void backward(Run& run, ResidualGradient& dy, const Batch& batch) = 0;
  /// Whether it reads the largest magnitude of its dy.
  [[nodiscard]] virtual bool reads_amax_of_gradient(const Run& run) const = 0;
  /// Its linear layers, in the order of the forward pass.
  virtual void collect(std::vector<Linear*>& linears) = 0;
};

/// As the dy of a layer that adds to the residual stream.
[[nodiscard]] Source source_of(const ResidualGradient& gradient, const Linear& layer);

/// Layers one after the other.
class Chain final : public Layer {
 public:
  void add(std::unique_ptr<Layer> layer) { layers_.push_back(std::move(layer)); }
  [[nodiscard]] Tensor forward(Run& run, const Tensor& x, const Batch& batch) override;
  void backward(Run& run, ResidualGradient& dy, const Batch& batch) override {
    backward(run, dy, batch, [](size_t /*layer*/) {});
  }
  /// done(i) after the backward pass of layer i.
  template <class Done>
  void backward(Run& run, ResidualGradient& dy, const Batch& batch, const Done& done) {
    const bool is_read_behind = dy.is_read_with_amax;
    for (size_t i = layers_.size(); i-- > 0;) {
      dy.is_read_with_amax = i > 0 ? layers_[i - 1]->reads_amax_of_gradient(run) : is_read_behind;
      layers_[i]->backward(run, dy, batch);
      done(i);
    }
  }
  [[nodiscard]] bool reads_amax_of_gradient(const Run& run) const override {
    return !layers_.empty() && layers_.back()->reads_amax_of_gradient(run);
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
  void backward(Run& run, ResidualGradient& dy, const Batch& batch) override;
  [[nodiscard]] bool reads_amax_of_gradient(const Run& run) const override {
    return inner_->reads_amax_of_gradient(run);
  }
  void collect(std::vector<Linear*>& linears) override { inner_->collect(linears); }

 private:
  std::unique_ptr<Layer> inner_;
};

}  // namespace ng
