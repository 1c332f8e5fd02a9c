// Matrices of a device as narrow numbers and products of them: through the seam, in memory that
// torch has, without a copy.
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/variant.h>

#include <utility>

#include "layer_run.h"
#include "library/access.h"
#include "numbers/by_definition.h"
#include "numbers/product.h"
#include "quantized.h"

namespace ng::python {
namespace {

/// An operand of a GEMM in memory of others: its codes and scales as the backend packs them.
class DeviceNumbers {
 public:
  DeviceNumbers(LayerRun& run, const narrowgauge::Format& format, int64_t rows, int64_t cols,
                bool along_rows, int hadamard)
      : run_(run) {
    spec_.cast = operand_of(format);
    if (is_by_definition(spec_.cast)) refuse_on_device("a tensor of the host");
    spec_.contract = along_rows ? Contract::rows : Contract::cols;
    spec_.rows = along_rows ? cols : rows;
    spec_.k = along_rows ? rows : cols;
    spec_.hadamard = hadamard_of(spec_.cast, hadamard);
    spec_.k_multiple = k_multiple(spec_.cast, spec_.cast, spec_.hadamard);
    spec_.signed_zeros = true;
    if (bytes() == 0 && rows * cols > 0) refuse_on_device("torch's own type of that name");
  }

  [[nodiscard]] size_t bytes() const { return run_.run().operand_bytes(spec_); }
  /// (rows, k) of the operand and what k is filled up to.
  [[nodiscard]] nb::tuple shape() const {
    return nb::make_tuple(spec_.rows, spec_.k, spec_.k_padded());
  }
  /// Rows and columns of scales; none: the numbers have none.
  [[nodiscard]] std::pair<int64_t, int64_t> scale_shape() const {
    const ScaleShape shape = ng::scale_shape(spec_.cast, spec_.rows, spec_.k_padded());
    return {shape.rows, shape.cols};
  }

  /// 64-bit words of OperandStats.
  [[nodiscard]] size_t stats_words() const { return sizeof(OperandStats) / sizeof(int64_t); }

  /// `stats`: stats_words() of them, zeros.
  void quantize(const When& when, const Matrix& x, const Row<uint8_t>& storage,
                const Row<int64_t>& stats, uint64_t seed, uint32_t tensor) {
    const View source = view_of_matrix(x);
    PackedOperand packed = packed_in(storage);
    NG_CHECK(stats.size() == stats_words(), stats.size());
    PrepareContext context;
    context.key = {.seed = seed, .tensor = tensor, .step = 0, .purpose = Purpose::fprop_input};
    context.stats = reinterpret_cast<OperandStats*>(stats.data());
    run_.work(when, [&] { run_.run().execute(Prepare{&packed, source, context}); });
  }
  /// values (rows, k_padded); codes as many; scales of blocks; the second level.
  void unpack(const When& when, const Row<uint8_t>& storage, const Matrix& values,
              const Row<int16_t>& codes, const std::optional<Row<float>>& scales,
              const std::optional<Row<float>>& level) {
    const PackedOperand packed = packed_in(storage);
    const View to = view_of_matrix(values);
    run_.work(when, [&] {
      run_.run().execute(Unpack{.packed = &packed,
                                .values = to,
                                .codes = reinterpret_cast<uint16_t*>(codes.data()),
                                .scales = scales ? scales->data() : nullptr,
                                .tensor_scale = level ? level->data() : nullptr});
    });
  }
  /// y (M, N) = these · otherᵀ. Throws Error where they have no product as they lie.
  void multiply(const When& when, const Row<uint8_t>& storage, const DeviceNumbers& other,
                const Row<uint8_t>& others, const Matrix& y) {
    if (spec_.k != other.spec_.k || spec_.k_padded() != other.spec_.k_padded() ||
        !(spec_.hadamard == other.spec_.hadamard))
      throw Error(
          {.place = "",
           .key = "b",
           .problem = fmt::format("sums over {} values filled up to {} and {} to {}", spec_.k,
                                  spec_.k_padded(), other.spec_.k, other.spec_.k_padded()),
           .remedy = "matmul(a, b, a_format=..., b_format=...) of the tensors"});
    const PackedOperand a = packed_in(storage), b = other.packed_in(others);
    const View to = view_of_matrix(y);
    run_.work(when, [&] { run_.run().execute(Gemm{.y = to, .a = &a, .b = &b, .bias = {}}); });
  }

 private:
  void refuse_on_device(const char* remedy) const {
    throw Error({.place = "",
                 .key = "format",
                 .problem = fmt::format("{} on a device", spec_.cast.element->short_name),
                 .remedy = remedy});
  }
  [[nodiscard]] PackedOperand packed_in(const Row<uint8_t>& storage) const {
    NG_CHECK(storage.size() >= bytes(), storage.size(), bytes());
    return {.spec = spec_,
            .source = {},
            .storage = reinterpret_cast<std::byte*>(storage.data()),
            .bytes = bytes()};
  }

  LayerRun& run_;
  OperandSpec spec_;
};

/// a · bᵀ of two matrices of a device, rounded on the way.
class DeviceProduct {
 public:
  DeviceProduct(LayerRun& run, const Factor& a, const Factor& b, const std::string& rounding,
                bool transpose_b, int hadamard, const std::string& sum, uint64_t seed)
      : run_(run) {
    job_.a_cast = factor_of("a_format", a, rounding);
    job_.b_cast = factor_of("b_format", b, rounding);
    job_.b_is_turned = transpose_b;
    job_.hadamard = hadamard_of(job_.a_cast, hadamard);
    job_.seed = seed;
    set_sum(job_, sum);
    as_call([&] { require_fitting_blocks(job_.a_cast, job_.b_cast); });
  }

  /// Bytes of storage for the operands of a (M, K) and b.
  [[nodiscard]] std::pair<size_t, size_t> bytes(std::pair<int64_t, int64_t> a,
                                                std::pair<int64_t, int64_t> b) {
    job_.a = {nullptr, a.first, a.second, a.second};
    job_.b = {nullptr, b.first, b.second, b.second};
    require_product_shapes(job_);
    return {run_.run().operand_bytes(spec_of(job_, Side::left)),
            run_.run().operand_bytes(spec_of(job_, Side::right))};
  }
  void multiply(const When& when, const Matrix& a, const Matrix& b, const Row<uint8_t>& of_a,
                const Row<uint8_t>& of_b, const Matrix& y) {
    const View left = view_of_matrix(a), right = view_of_matrix(b), to = view_of_matrix(y);
    PackedOperand packed_a = packed(Side::left, of_a), packed_b = packed(Side::right, of_b);
    run_.work(when, [&] {
      PrepareContext context;
      context.key = key_of(job_, Side::left);
      run_.run().execute(Prepare{&packed_a, left, context});
      context.key = key_of(job_, Side::right);
      run_.run().execute(Prepare{&packed_b, right, context});
      run_.run().execute(
          Gemm{.y = to, .a = &packed_a, .b = &packed_b, .bias = {}, .sum = job_.sum});
    });
  }

 private:
  [[nodiscard]] PackedOperand packed(Side side, const Row<uint8_t>& storage) const {
    return {.spec = spec_of(job_, side),
            .source = {},
            .storage = reinterpret_cast<std::byte*>(storage.data()),
            .bytes = storage.size()};
  }

  LayerRun& run_;
  ProductJob job_;
};

}  // namespace

void add_on_device(nb::module_& module) {
  nb::class_<DeviceNumbers>(module, "DeviceNumbers")
      .def(nb::init<LayerRun&, const narrowgauge::Format&, int64_t, int64_t, bool, int>(),
           nb::keep_alive<1, 2>(), "run"_a, "format"_a, "rows"_a, "cols"_a, "along_rows"_a,
           "hadamard"_a)
      .def_prop_ro("bytes", &DeviceNumbers::bytes)
      .def_prop_ro("stats_words", &DeviceNumbers::stats_words)
      .def_prop_ro("shape", &DeviceNumbers::shape)
      .def_prop_ro("scale_shape", &DeviceNumbers::scale_shape)
      .def("quantize", &DeviceNumbers::quantize, "when"_a, "x"_a, "storage"_a, "stats"_a, "seed"_a,
           "tensor"_a)
      .def("unpack", &DeviceNumbers::unpack, "when"_a, "storage"_a, "values"_a, "codes"_a,
           "scales"_a.none(), "level"_a.none())
      .def("multiply", &DeviceNumbers::multiply, "when"_a, "storage"_a, "other"_a, "others"_a,
           "y"_a);
  nb::class_<DeviceProduct>(module, "DeviceProduct")
      .def(nb::init<LayerRun&, const Factor&, const Factor&, const std::string&, bool, int,
                    const std::string&, uint64_t>(),
           nb::keep_alive<1, 2>(), "run"_a, "a_format"_a, "b_format"_a, "rounding"_a,
           "transpose_b"_a, "hadamard"_a, "sum"_a, "seed"_a)
      .def("bytes", &DeviceProduct::bytes, "a"_a, "b"_a)
      .def("multiply", &DeviceProduct::multiply, "when"_a, "a"_a, "b"_a, "of_a"_a, "of_b"_a, "y"_a);
}

}  // namespace ng::python
