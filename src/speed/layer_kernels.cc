#include "speed/layer_kernels.h"

#include <fmt/format.h>

#include <array>
#include <memory>
#include <numeric>

namespace ng {
namespace {

constexpr int64_t kHead = 64;
/// Most tokens of a sequence: on a device as many as models there are trained on.
constexpr int64_t kLongest = 256, kLongestOfDevice = 1024;
constexpr float kEps = 1e-5f;

/// Matrices of one shape and storage: some with values, and as many for results.
class LayerTensors {
 public:
  LayerTensors(Backend& backend, const ConstView& values, const ElementFormat& stored)
      : backend_(backend),
        stored_(stored),
        rows_(values.rows),
        cols_(values.cols),
        length_(std::gcd(rows_, backend.is_in_hosts_reach() ? kLongest : kLongestOfDevice)) {
    NG_CHECK(cols_ % kHead == 0 && values.stride == cols_, cols_, values.stride);
    for (auto& line : lines_) {
      line = memory(static_cast<size_t>(cols_) * sizeof(float));
      run(Fill{.x = fp32_in(*line, 1, cols_), .value = 1});
    }
    for (auto* all : {&x_, &y_})
      for (auto& each : *all) {
        each = memory(bytes_of(stored_, rows_ * cols_));
        run(Copy{.y = matrix(*each), .x = values});
      }
    lse_ = memory(static_cast<size_t>(rows_ * cols_ / kHead) * sizeof(float));
  }

  [[nodiscard]] View x(size_t i) const { return matrix(*x_[i]); }
  [[nodiscard]] View y(size_t i) const { return matrix(*y_[i]); }
  [[nodiscard]] View line(size_t i) const { return fp32_in(*lines_[i], 1, cols_); }
  [[nodiscard]] View lse() const { return fp32_in(*lse_, rows_, cols_ / kHead); }
  [[nodiscard]] AttentionShape attention() const {
    const auto heads = static_cast<int>(cols_ / kHead);
    return {.sequences = rows_ / length_,
            .length = length_,
            .kv_length = length_,
            .kv_stride = length_,
            .heads = heads,
            .kv_heads = heads,
            .head_dim = kHead};
  }
  /// A multiplication and an addition for each of half the keys, of an element of q.
  [[nodiscard]] double flops_of_product() const { return static_cast<double>(length_ + 1); }
  void run(const Operation& operation) { backend_.execute(operation); }

 private:
  using Memory = std::unique_ptr<BackendMemory>;
  [[nodiscard]] Memory memory(size_t bytes) {
    return std::make_unique<BackendMemory>(backend_, bytes);
  }
  [[nodiscard]] View matrix(const BackendMemory& memory) const {
    return {memory.data(), stored_, rows_, cols_, cols_};
  }

  Backend& backend_;
  const ElementFormat& stored_;
  int64_t rows_, cols_, length_;
  std::array<Memory, 4> x_, y_;
  std::array<Memory, 3> lines_;
  Memory lse_;
};

struct LayerKernel {
  const char* name;
  int matrices;  ///< read or written once
  void (*work)(LayerTensors& t);
  int products = 0;  ///< of attention: each adds a multiple of every key that a query sees
};

constexpr LayerKernel kKernels[] = {
    {"layer add", 3, [](LayerTensors& t) { t.run(Add{.y = t.y(0), .a = t.x(0), .b = t.x(1)}); }},
    {"layer norm", 2,
     [](LayerTensors& t) {
       t.run(Norm{.kind = NormKind::layer,
                  .y = t.y(0),
                  .x = t.x(0),
                  .gain = t.line(0),
                  .bias = t.line(0),
                  .eps = kEps});
     }},
    {"layer norm backward", 4,
     [](LayerTensors& t) {
       t.run(NormBackward{.kind = NormKind::layer,
                          .dx = t.y(0),
                          .dgain = t.line(1),
                          .dbias = t.line(2),
                          .dresidual = t.x(2),
                          .dy = t.x(1),
                          .x = t.x(0),
                          .gain = t.line(0),
                          .eps = kEps});
     }},
    {"layer gelu", 2, [](LayerTensors& t) { t.run(Gelu{.y = t.y(0), .x = t.x(0)}); }},
    {"layer gelu backward", 3,
     [](LayerTensors& t) { t.run(GeluBackward{.dx = t.y(0), .dy = t.x(1), .x = t.x(0)}); }},
    {"layer swiglu", 3,
     [](LayerTensors& t) { t.run(Swiglu{.y = t.y(0), .gate = t.x(0), .up = t.x(1)}); }},
    {"layer swiglu backward", 5,
     [](LayerTensors& t) {
       t.run(SwigluBackward{
           .dgate = t.y(0), .dup = t.y(1), .dy = t.x(2), .gate = t.x(0), .up = t.x(1)});
     }},
    {"layer attention", 4,
     [](LayerTensors& t) {
       t.run(Attention{.out = t.y(0),
                       .lse = t.lse(),
                       .q = t.x(0),
                       .k = t.x(1),
                       .v = t.x(2),
                       .shape = t.attention()});
     },
     2},
    {"layer attention backward", 8,
     [](LayerTensors& t) {
       t.run(AttentionBackward{.dq = t.y(0),
                               .dk = t.y(1),
                               .dv = t.y(2),
                               .dout = t.x(3),
                               .out = t.y(3),
                               .lse = t.lse(),
                               .q = t.x(0),
                               .k = t.x(1),
                               .v = t.x(2),
                               .shape = t.attention()});
     },
     4}};

}  // namespace

std::vector<TimedKernel> layer_kernels(
    Backend& backend, const ConstView& values,
    const std::function<bool(const std::string& name)>& is_wanted) {
  std::vector<TimedKernel> all;
  for (const ElementFormat* stored : {&fp32_format(), &bf16_format()}) {
    std::shared_ptr<LayerTensors> tensors;
    for (const LayerKernel& kernel : kKernels) {
      const std::string name =
          stored == &fp32_format() ? kernel.name : fmt::format("{} bf16", kernel.name);
      if (!is_wanted(name)) continue;
      if (!tensors) tensors = std::make_shared<LayerTensors>(backend, values, *stored);
      all.push_back({.name = name,
                     .bytes_per_element = kernel.matrices * static_cast<double>(stored->bits) / 8,
                     .work = [tensors, work = kernel.work] { work(*tensors); },
                     .flops_per_element = kernel.products * tensors->flops_of_product()});
    }
  }
  return all;
}

}  // namespace ng
