#include "speed/operation_bytes.h"

namespace ng {
namespace {

double bytes_of(const ConstView& x) {
  return x.rows == 0 ? 0 : static_cast<double>(x.size()) * x.element->bits / 8;
}
double bytes_of(const Stored& x) {
  return bytes_of(ConstView(x.view)) * (x.view.low != nullptr ? 2 : 1);
}

/// What an optimizer reads of a tensor for its new values.
double read_by(const Update& op) {
  return bytes_of(op.grad) + bytes_of(op.moment1) + bytes_of(op.moment2) +
         bytes_of(op.weight.master ? op.weight.master : op.weight.value) +
         bytes_of(ConstView(op.weight.carry));
}
double written_by(const Update& op) {
  return bytes_of(op.weight.value) + bytes_of(op.weight.master) + bytes_of(op.moment1) +
         bytes_of(op.moment2) + bytes_of(ConstView(op.weight.carry));
}

/// Those whose tensors do not say it all by their names.
struct OfOperation {
  double operator()(const Gemm& /* op */) const { return 0; }
  double operator()(const Attention& /* op */) const { return 0; }
  double operator()(const AttentionBackward& /* op */) const { return 0; }
  double operator()(const Prepare& op) const { return prepared(op.packed->bytes, op.source); }
  double operator()(const PrepareBoth& op) const {
    return prepared(op.made[0].packed->bytes + op.made[1].packed->bytes, op.source);
  }
  double operator()(const Fill& op) const { return bytes_of(ConstView(op.x)); }
  double operator()(const Clear& op) const { return static_cast<double>(op.bytes.size()); }
  // Of tables only the rows of these tokens.
  double operator()(const Embed& op) const { return 2 * bytes_of(ConstView(op.y)); }
  double operator()(const EmbedBackward& op) const {
    return bytes_of(op.dy) + 2 * static_cast<double>(op.dy.size()) * sizeof(float);
  }
  double operator()(const Update& op) const { return read_by(op) + written_by(op); }
  double operator()(const FindUpdateMaxima& op) const { return read_by(op.update); }
  double operator()(const CheckUpdate& op) const { return read_by(op.update); }
  /// Outputs are written; inputs are known by their names. What is changed in place is both.
  template <class Op>
  double operator()(const Op& op) const {
    double bytes = 0;
    op.each_output([&](std::string_view, const ConstView& y) { bytes += bytes_of(y); });
    const auto add = [&](const ConstView& x) { bytes += bytes_of(x); };
    if constexpr (requires { op.x.rows; }) add(op.x);
    if constexpr (requires { op.a.rows; }) add(op.a), add(op.b);
    if constexpr (requires { op.dy; }) add(op.dy);
    if constexpr (requires { op.dresidual; }) add(op.dresidual);
    if constexpr (requires { op.gate; }) add(op.gate), add(op.up);
    if constexpr (requires { op.logits; }) add(op.logits);
    if constexpr (requires { op.source; }) add(op.source);
    if constexpr (requires { op.codes.rows; }) add(op.codes);
    if constexpr (requires { op.grad; }) add(op.grad);
    if constexpr (requires { op.momentum; }) add(op.momentum);
    if constexpr (requires { op.of; }) add(op.of.weight);
    return bytes;
  }

 private:
  /// An operand of no bytes lies where its source is.
  static double prepared(size_t bytes, const ConstView& source) {
    return bytes == 0 ? 0 : static_cast<double>(bytes) + bytes_of(source);
  }
};

}  // namespace

double streamed_bytes(const Operation& operation) { return std::visit(OfOperation(), operation); }

}  // namespace ng
