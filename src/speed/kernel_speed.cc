#include "speed/kernel_speed.h"

#include <algorithm>
#include <memory>

#include "backend/cpu/quantize/kernels.h"
#include "base/error.h"
#include "math/normal.h"
#include "numbers/narrow_matrix.h"
#include "numbers/product.h"
#include "numbers/unpack.h"
#include "run/backends.h"
#include "speed/gradient_kernels.h"
#include "speed/layer_kernels.h"
#include "speed/noise_kernels.h"
#include "speed/timing.h"

namespace ng {
namespace {

constexpr double kLeastSeconds = 2e-3;  // of one measurement
constexpr const char* kFormats[] = {"fp8_e4m3",   "fp8_e5m2", "mxfp8_e4m3", "mxfp8_e5m2",
                                    "mxfp6_e3m2", "mxfp4",    "nvfp4",      "int8"};

std::unique_ptr<Backend> backend_of(const SpeedRun& run) {
  return run.backend ? run.backend() : make_backend("cpu", run.threads);
}

class Bench {
 public:
  explicit Bench(const SpeedRun& run)
      : run_(run),
        backend_(backend_of(run)),
        source_(*backend_, bytes_of_matrix()),
        target_(*backend_, bytes_of_matrix()),
        facts_(*backend_, sizeof(Facts)) {
    fill_source();
    add_limits();
    if (!run.backend) add_parts();
    for (const char* format : kFormats) add_format(format);
    Operand cast = operand_of("mxfp4");
    cast.scale_rule = ScaleRule::mse;
    add_encode("encode mxfp4 along mse", spec_of(cast, Contract::cols));
    add_others();
    require_some();
  }

  std::vector<KernelSpeed> measure() {
    const auto finish = [this] {
      if (!backend_->is_in_hosts_reach()) (void)downloaded_amax();
    };
    for (int round = 0; round < run_.rounds; ++round)
      for (TimedKernel& k : kernels_)
        k.best_seconds = std::min(k.best_seconds, seconds_per_call(k.work, kLeastSeconds, finish));
    std::vector<KernelSpeed> speeds;
    for (const TimedKernel& k : kernels_) {
      const double elements = static_cast<double>(run_.rows * run_.cols) / k.best_seconds;
      speeds.push_back(
          {k.name, elements, elements * k.bytes_per_element, elements * k.flops_per_element});
    }
    return speeds;
  }

 private:
  /// What lies in the backend's memory, too.
  struct Facts {
    OperandStats stats;
    float amax;
  };

  [[nodiscard]] size_t bytes_of_matrix() const {
    return static_cast<size_t>(run_.rows * run_.cols) * sizeof(float);
  }
  [[nodiscard]] Facts* facts() const { return reinterpret_cast<Facts*>(facts_.data()); }
  /// When all that was begun is done.
  [[nodiscard]] float downloaded_amax() const {
    float amax = 0;
    backend_->download(&amax, reinterpret_cast<const std::byte*>(&facts()->amax), sizeof amax);
    return amax;
  }

  // Some normal values, again and again: to draw all takes longer than to cast them.
  void fill_source() {
    constexpr size_t kDrawn = size_t{1} << 18;
    std::vector<float> values(static_cast<size_t>(run_.rows * run_.cols));
    for (size_t i = 0; i < values.size(); ++i)
      values[i] = i < kDrawn ? math::normal({}, i, 1.0f) : values[i - kDrawn];
    backend_->upload(source_.data(), values.data(), bytes_of_matrix());
  }

  [[nodiscard]] ConstView source() const { return fp32_in(source_, run_.rows, run_.cols); }
  /// Of the cpu backend, which the host reads.
  [[nodiscard]] Rows<const float> rows() const { return source().as<float>(); }

  // By rows, a few at a time for each thread.
  void for_rows(const std::function<void(int64_t row, int64_t rows)>& body) const {
    constexpr int64_t kRows = 16;
    parallel_for(run_.threads, (run_.rows + kRows - 1) / kRows, [&](int64_t item, int) {
      body(item * kRows, std::min(kRows, run_.rows - item * kRows));
    });
  }

  void add_limits() {
    kernels_.push_back({"copy", 8, [this] {
                          backend_->execute(
                              Copy{.y = fp32_in(target_, run_.rows, run_.cols), .x = source()});
                        }});
    kernels_.push_back({"read", 4, [this] {
                          backend_->execute(FindAmax{.amax = &facts()->amax, .x = source()});
                        }});
  }

  /// What the cpu backend has beside its operations.
  void add_parts() {
    workspace_ = std::make_unique<cpu::Workspace>(run_.threads);
    add_amax("amax tensor", run_.cols, 0);
    for (const int64_t block : {32, 16}) add_amax(fmt::format("amax 1x{}", block), block, 1);
    for (const char* format : kFormats) add_decode(format);
    for (const char* format : {"fp8_e4m3", "mxfp4", "nvfp4"}) add_unpack(format);
    if (is_wanted("noise box-muller")) kernels_.push_back(box_muller_kernel(*workspace_, rows()));
  }

  /// The largest magnitudes of blocks of a row, or of everything (rows_per_block 0).
  void add_amax(const std::string& name, int64_t block, int64_t rows_per_block) {
    if (!is_wanted(name)) return;
    const int64_t stride = rows_per_block == 0 ? 0 : run_.cols / block;
    auto amax = std::make_shared<std::vector<uint32_t>>(
        static_cast<size_t>(std::max<int64_t>(run_.rows * stride, 1)));
    kernels_.push_back({name, 4 + 4.0 * static_cast<double>(stride) / double(run_.cols),
                        [this, amax, block, stride] {
                          for_rows([&](int64_t row, int64_t rows) {
                            uint32_t of_all = 0;
                            uint32_t* to = stride == 0 ? &of_all : amax->data() + row * stride;
                            cpu::block_amax({this->rows().row(row), run_.cols}, rows, run_.cols,
                                            {to, stride, stride == 0 ? rows : 1, block});
                          });
                        }});
  }

  void add_format(const std::string& format) {
    for (const Contract contract : {Contract::cols, Contract::rows})
      for (const Rounding rounding : {Rounding::nearest, Rounding::stochastic}) {
        std::string name = "encode " + format;
        name += contract == Contract::cols ? " along" : " turned";
        OperandSpec spec = spec_of(operand_of(format), contract);
        spec.cast.rounding = rounding;
        const char* rounded = rounding == Rounding::stochastic ? " stochastic" : "";
        add_encode(name + rounded, spec);
        if (format != "mxfp4" && format != "nvfp4") continue;
        spec.hadamard.size = spec.k_multiple = 64;
        add_encode(name + " hadamard 64" + rounded, spec);
      }
  }

  [[nodiscard]] OperandSpec spec_of(const Operand& cast, Contract contract) const {
    OperandSpec spec;
    spec.cast = cast;
    spec.contract = contract;
    spec.rows = contract == Contract::cols ? run_.rows : run_.cols;
    spec.k = contract == Contract::cols ? run_.cols : run_.rows;
    return spec;
  }

  void require_some() const {
    for (const TimedKernel& k : kernels_)
      if (is_wanted(k.name)) return;
    throw Error({.place = "--filter",
                 .key = "",
                 .problem = fmt::format("no kernel's name contains \"{}\"", run_.filter),
                 .remedy = "a part of one, as the table without --filter shows them"});
  }

  [[nodiscard]] bool is_wanted(const std::string& name) const {
    return name.find(run_.filter) != std::string::npos;
  }

  void add_encode(const std::string& name, const OperandSpec& spec) {
    if (!is_wanted(name)) return;
    const size_t bytes = backend_->operand_bytes(spec);
    auto storage = std::make_shared<BackendMemory>(*backend_, bytes);
    kernels_.push_back(
        {name, 4 + static_cast<double>(bytes) / static_cast<double>(run_.rows * run_.cols),
         [this, spec, storage, bytes] {
           PackedOperand packed{spec, {}, storage->data(), bytes};
           PrepareContext context;
           context.stats = &facts()->stats;
           backend_->execute(Prepare{.packed = &packed, .source = source(), .context = context});
         }});
  }

  void add_decode(const std::string& format) {
    const std::string name = "decode " + format;
    if (!is_wanted(name)) return;
    auto matrix = std::make_shared<NarrowMatrix>(
        quantize(rows(), operand_of(format), QuantizeOptions{}, run_.threads));
    const double code_bytes = sizeof(matrix->codes[0]);
    kernels_.push_back({name, 4 + code_bytes, [this, matrix] {
                          dequantize(*matrix, fp32_in(target_, run_.rows, run_.cols).as<float>(),
                                     run_.threads);
                        }});
  }

  /// A prepared operand as codes and scales in the order of the matrix.
  void add_unpack(const std::string& format) {
    const std::string name = "unpack " + format;
    if (!is_wanted(name)) return;
    OperandSpec spec = spec_of(operand_of(format), Contract::cols);
    spec.signed_zeros = true;
    auto factor = std::make_shared<Factor>(*workspace_, spec, rows(), RandomKey{});
    auto matrix = std::make_shared<NarrowMatrix>();
    matrix->cast = spec.cast;
    matrix->rows = run_.rows;
    matrix->cols = run_.cols;
    matrix->grid = scale_grid(spec.cast, Contract::cols, run_.rows, run_.cols);
    const double bytes =
        static_cast<double>(factor->packed().bytes) / static_cast<double>(run_.rows * run_.cols);
    kernels_.push_back({name, bytes + sizeof(matrix->codes[0]), [this, factor, matrix] {
                          unpack_operand(factor->packed(), code_table(*matrix->cast.element),
                                         *matrix, run_.threads);
                        }});
  }

  void add_others() {
    const auto wanted = [this](const std::string& name) { return is_wanted(name); };
    for (const auto& kernels_of : {noise_kernels, gradient_kernels, layer_kernels})
      for (TimedKernel& kernel : kernels_of(*backend_, source(), wanted))
        kernels_.push_back(std::move(kernel));
  }

  SpeedRun run_;
  std::unique_ptr<Backend> backend_;
  BackendMemory source_, target_, facts_;
  std::unique_ptr<cpu::Workspace> workspace_;  ///< of add_parts()
  std::vector<TimedKernel> kernels_;
};

}  // namespace

std::vector<KernelSpeed> kernel_speeds(const SpeedRun& run) { return Bench(run).measure(); }

}  // namespace ng
