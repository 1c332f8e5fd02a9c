// probe: what a card and its cuBLASLt can do, as one JSON object: limits, the rate of a copy, which
// products have an algorithm and how fast they are, how MXFP4 folded into FP8 is beside its
// emulation in BF16, and whether it is summed exactly. Ends with 1 and one line where there is no
// card. Built by scripts/gpu-bundle; never run on a card yet.
#include <cublasLt.h>
#include <cuda_runtime.h>
#include <dlfcn.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <vector>

namespace {

void check(cudaError_t code, const char* what) {
  if (code == cudaSuccess) return;
  std::fprintf(stderr, "probe: %s: %s\n", what, cudaGetErrorString(code));
  std::exit(1);
}

/// Memory of the card; zeros.
class Bytes {
 public:
  explicit Bytes(size_t bytes) {
    check(cudaMalloc(&at_, bytes), "memory");
    check(cudaMemset(at_, 0, bytes), "zeros");
  }
  ~Bytes() { cudaFree(at_); }
  Bytes(const Bytes&) = delete;
  Bytes& operator=(const Bytes&) = delete;
  [[nodiscard]] void* get() const { return at_; }

 private:
  void* at_ = nullptr;
};

/// Numbers of type `type` that use all mantissas and both signs: a card is faster on zeros.
struct Pattern {
  uint32_t drawn = 0xFFFFFFFF, set = 0;
  explicit Pattern(cudaDataType_t type) {
    if (type == CUDA_R_16BF) drawn = 0x807F807F, set = 0x3F803F80;     // ±[1, 2)
    if (type == CUDA_R_8F_E4M3) drawn = 0x87878787, set = 0x38383838;  // ±[1, 2)
    if (type == CUDA_R_8F_E5M2) drawn = 0x83838383, set = 0x3C3C3C3C;  // ±[1, 2)
  }
};

__global__ void draw(uint32_t* words, size_t count, Pattern pattern) {
  const size_t stride = size_t{gridDim.x} * blockDim.x;
  for (size_t i = size_t{blockIdx.x} * blockDim.x + threadIdx.x; i < count; i += stride) {
    uint64_t x = (i + 1) * 0x9E3779B97F4A7C15ULL;
    x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9ULL;
    words[i] = (static_cast<uint32_t>(x >> 32) & pattern.drawn) | pattern.set;
  }
}

void draw(const Bytes& bytes, size_t size, cudaDataType_t type) {
  draw<<<1024, 256>>>(static_cast<uint32_t*>(bytes.get()), size / 4, Pattern(type));
  check(cudaGetLastError(), "drawing operands");
}

/// The least of five times of `rounds` calls, in seconds a call.
template <class Call>
double seconds(int rounds, const Call& call) {
  cudaEvent_t begin, end;
  check(cudaEventCreate(&begin), "an event");
  check(cudaEventCreate(&end), "an event");
  call();  // what is set up once
  float least = INFINITY;
  for (int turn = 0; turn < 5; ++turn) {
    check(cudaEventRecord(begin), "an event");
    for (int i = 0; i < rounds; ++i) call();
    check(cudaEventRecord(end), "an event");
    check(cudaEventSynchronize(end), "what is timed");
    float milliseconds = 0;
    check(cudaEventElapsedTime(&milliseconds, begin, end), "a time");
    least = std::min(least, milliseconds);
  }
  check(cudaEventDestroy(begin), "an event");
  check(cudaEventDestroy(end), "an event");
  return 1e-3 * least / rounds;
}

/// The functions of the machine's cuBLASLt, looked for when the program runs.
struct Blas {
  void* library = dlopen("libcublasLt.so.13", RTLD_NOW | RTLD_LOCAL);
  cublasLtHandle_t handle = nullptr;

  template <class F>
  [[nodiscard]] F* find(F& /* declared */, const char* name) const {
    return reinterpret_cast<F*>(dlsym(library, name));
  }
  Blas() {
    if (library != nullptr && find(cublasLtCreate, "cublasLtCreate")(&handle) != 0)
      handle = nullptr;
  }
  [[nodiscard]] size_t version() const { return find(cublasLtGetVersion, "cublasLtGetVersion")(); }
};

/// A kind of product: D = A^T · B, both with k as the leading dimension, as FP8 asks for.
struct Mode {
  const char* name;
  cudaDataType_t a, b, d;
  cublasComputeType_t compute;
  cudaDataType_t scalar;
  int a_scale, b_scale;  ///< cublasLtMatmulMatrixScale_t; -1: none
  int bits;              ///< of an operand's element
};

constexpr int kNone = -1;
constexpr Mode kModes[] = {
    {"bf16", CUDA_R_16BF, CUDA_R_16BF, CUDA_R_16BF, CUBLAS_COMPUTE_32F, CUDA_R_32F, kNone, kNone,
     16},
    {"int8", CUDA_R_8I, CUDA_R_8I, CUDA_R_32I, CUBLAS_COMPUTE_32I, CUDA_R_32I, kNone, kNone, 8},
    {"fp8, a scale each", CUDA_R_8F_E4M3, CUDA_R_8F_E4M3, CUDA_R_16BF, CUBLAS_COMPUTE_32F,
     CUDA_R_32F, CUBLASLT_MATMUL_MATRIX_SCALE_SCALAR_32F, CUBLASLT_MATMUL_MATRIX_SCALE_SCALAR_32F,
     8},
    {"fp8 gradient, a scale each", CUDA_R_8F_E4M3, CUDA_R_8F_E5M2, CUDA_R_16BF, CUBLAS_COMPUTE_32F,
     CUDA_R_32F, CUBLASLT_MATMUL_MATRIX_SCALE_SCALAR_32F, CUBLASLT_MATMUL_MATRIX_SCALE_SCALAR_32F,
     8},
    {"fp8, rows and columns", CUDA_R_8F_E4M3, CUDA_R_8F_E4M3, CUDA_R_16BF, CUBLAS_COMPUTE_32F,
     CUDA_R_32F, CUBLASLT_MATMUL_MATRIX_SCALE_OUTER_VEC_32F,
     CUBLASLT_MATMUL_MATRIX_SCALE_OUTER_VEC_32F, 8},
    {"fp8, 1x128", CUDA_R_8F_E4M3, CUDA_R_8F_E4M3, CUDA_R_16BF, CUBLAS_COMPUTE_32F, CUDA_R_32F,
     CUBLASLT_MATMUL_MATRIX_SCALE_VEC128_32F, CUBLASLT_MATMUL_MATRIX_SCALE_VEC128_32F, 8},
    {"fp8, 128x128 by 1x128", CUDA_R_8F_E4M3, CUDA_R_8F_E4M3, CUDA_R_16BF, CUBLAS_COMPUTE_32F,
     CUDA_R_32F, CUBLASLT_MATMUL_MATRIX_SCALE_BLK128x128_32F,
     CUBLASLT_MATMUL_MATRIX_SCALE_VEC128_32F, 8},
    {"mxfp8", CUDA_R_8F_E4M3, CUDA_R_8F_E4M3, CUDA_R_16BF, CUBLAS_COMPUTE_32F, CUDA_R_32F,
     CUBLASLT_MATMUL_MATRIX_SCALE_VEC32_UE8M0, CUBLASLT_MATMUL_MATRIX_SCALE_VEC32_UE8M0, 8},
    {"nvfp4", CUDA_R_4F_E2M1, CUDA_R_4F_E2M1, CUDA_R_16BF, CUBLAS_COMPUTE_32F, CUDA_R_32F,
     CUBLASLT_MATMUL_MATRIX_SCALE_VEC16_UE4M3, CUBLASLT_MATMUL_MATRIX_SCALE_VEC16_UE4M3, 4},
    {"folded mxfp4, FP32 out", CUDA_R_8F_E4M3, CUDA_R_8F_E4M3, CUDA_R_32F, CUBLAS_COMPUTE_32F,
     CUDA_R_32F, CUBLASLT_MATMUL_MATRIX_SCALE_SCALAR_32F, CUBLASLT_MATMUL_MATRIX_SCALE_SCALAR_32F,
     8},
    {"bf16, FP32 out", CUDA_R_16BF, CUDA_R_16BF, CUDA_R_32F, CUBLAS_COMPUTE_32F, CUDA_R_32F, kNone,
     kNone, 16},
};
constexpr const Mode& kFolded = kModes[std::size(kModes) - 2];
constexpr const Mode& kEmulated = kModes[std::size(kModes) - 1];  ///< MXFP4 as BF16 holds it

int64_t bytes_of(cudaDataType_t type) { return type == CUDA_R_16BF ? 2 : 4; }

/// A product of one shape: whether the library has an algorithm for it, and the call.
class Product {
 public:
  Product(const Blas& blas, const Mode& mode, int64_t m, int64_t n, int64_t k)
      : blas_(blas), scales_(static_cast<size_t>(std::max({m, n, k}) * k / 16 + 4)) {
    // Ones in FP32; read as narrower scales some other numbers, on which no rate depends.
    const std::vector<float> ones(static_cast<size_t>(std::max({m, n, k})), 1.0f);
    check(cudaMemcpy(scales_.get(), ones.data(),
                     std::min(ones.size() * 4, static_cast<size_t>(std::max({m, n, k}) * k / 16)),
                     cudaMemcpyHostToDevice),
          "scales");
    blas.find(cublasLtMatmulDescCreate, "cublasLtMatmulDescCreate")(&product_, mode.compute,
                                                                    mode.scalar);
    set(CUBLASLT_MATMUL_DESC_TRANSA, CUBLAS_OP_T);
    void* scales = scales_.get();
    if (mode.a_scale != kNone) {
      set(CUBLASLT_MATMUL_DESC_A_SCALE_MODE, mode.a_scale);
      set(CUBLASLT_MATMUL_DESC_B_SCALE_MODE, mode.b_scale);
      set(CUBLASLT_MATMUL_DESC_A_SCALE_POINTER, scales);
      set(CUBLASLT_MATMUL_DESC_B_SCALE_POINTER, scales);
    }
    const auto layout = blas.find(cublasLtMatrixLayoutCreate, "cublasLtMatrixLayoutCreate");
    layout(&a_, mode.a, static_cast<uint64_t>(k), static_cast<uint64_t>(m), k);
    layout(&b_, mode.b, static_cast<uint64_t>(k), static_cast<uint64_t>(n), k);
    layout(&d_, mode.d, static_cast<uint64_t>(m), static_cast<uint64_t>(n), m);
    cublasLtMatmulPreference_t wish = nullptr;
    blas.find(cublasLtMatmulPreferenceCreate, "cublasLtMatmulPreferenceCreate")(&wish);
    const size_t room = kRoom;
    blas.find(cublasLtMatmulPreferenceSetAttribute, "cublasLtMatmulPreferenceSetAttribute")(
        wish, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &room, sizeof room);
    int found = 0;
    const cublasStatus_t status =
        blas.find(cublasLtMatmulAlgoGetHeuristic, "cublasLtMatmulAlgoGetHeuristic")(
            blas.handle, product_, a_, b_, d_, d_, wish, 1, &choice_, &found);
    has_algorithm_ = status == CUBLAS_STATUS_SUCCESS && found > 0;
    blas.find(cublasLtMatmulPreferenceDestroy, "cublasLtMatmulPreferenceDestroy")(wish);
  }
  ~Product() {
    const auto forget = blas_.find(cublasLtMatrixLayoutDestroy, "cublasLtMatrixLayoutDestroy");
    for (cublasLtMatrixLayout_t layout : {a_, b_, d_}) forget(layout);
    blas_.find(cublasLtMatmulDescDestroy, "cublasLtMatmulDescDestroy")(product_);
  }
  Product(const Product&) = delete;
  Product& operator=(const Product&) = delete;

  [[nodiscard]] bool has_algorithm() const { return has_algorithm_; }

  /// False where the library refuses after all.
  bool run(const Bytes& a, const Bytes& b, const Bytes& d, const Bytes& room, bool integers) const {
    const float one = 1, zero = 0;
    const int32_t whole = 1, nothing = 0;
    const void* alpha = integers ? static_cast<const void*>(&whole) : &one;
    const void* beta = integers ? static_cast<const void*>(&nothing) : &zero;
    return blas_.find(cublasLtMatmul, "cublasLtMatmul")(
               blas_.handle, product_, alpha, a.get(), a_, b.get(), b_, beta, d.get(), d_, d.get(),
               d_, &choice_.algo, room.get(), kRoom, nullptr) == CUBLAS_STATUS_SUCCESS;
  }

  static constexpr size_t kRoom = size_t{32} << 20;  ///< bytes an algorithm may use

 private:
  template <class Value>
  void set(cublasLtMatmulDescAttributes_t attribute, const Value& value) {
    blas_.find(cublasLtMatmulDescSetAttribute, "cublasLtMatmulDescSetAttribute")(
        product_, attribute, &value, sizeof value);
  }

  const Blas& blas_;
  Bytes scales_;
  cublasLtMatmulDesc_t product_ = nullptr;
  cublasLtMatrixLayout_t a_ = nullptr, b_ = nullptr, d_ = nullptr;
  cublasLtMatmulHeuristicResult_t choice_{};
  bool has_algorithm_ = false;
};

struct Rate {
  bool has_algorithm;
  double tflops;  ///< 0: not measured
};

/// Of m tokens through a layer of `width` by `width`.
Rate rate_of(const Blas& blas, const Mode& mode, int64_t m, int64_t width) {
  const Product product(blas, mode, m, width, width);
  if (!product.has_algorithm()) return {false, 0};
  const auto a_bytes = static_cast<size_t>(m * width * mode.bits / 8);
  const auto b_bytes = static_cast<size_t>(width * width * mode.bits / 8);
  const Bytes a(a_bytes), b(b_bytes);
  draw(a, a_bytes, mode.a);
  draw(b, b_bytes, mode.b);
  const Bytes d(static_cast<size_t>(m * width * bytes_of(mode.d))), room(Product::kRoom);
  const bool integers = mode.d == CUDA_R_32I;
  if (!product.run(a, b, d, room, integers)) return {true, 0};
  const double operations = 2.0 * static_cast<double>(m) * static_cast<double>(width * width);
  const double time = seconds(10, [&] { product.run(a, b, d, room, integers); });
  return {true, 1e-12 * operations / time};
}

/// 0: null.
void print_number(const char* key, double number, const char* behind) {
  if (number > 0)
    std::printf("\"%s\": %.2f%s", key, number, behind);
  else
    std::printf("\"%s\": null%s", key, behind);
}

/// Prints a row of "products".
void print_rate(const Blas& blas, const Mode& mode, int64_t m, int64_t width, const char* before) {
  const Rate rate = rate_of(blas, mode, m, width);
  std::printf("%s\n    {\"mode\": \"%s\", \"tokens\": %lld, \"width\": %lld, \"algorithm\": %s, ",
              before, mode.name, static_cast<long long>(m), static_cast<long long>(width),
              rate.has_algorithm ? "true" : "false");
  print_number("tflops", rate.tflops, "}");
  std::fflush(stdout);
}

/// Prints a row of "folded_beside_bf16": products alone, of operands that are held already.
void print_beside(const Blas& blas, int64_t m, int64_t width, const char* before) {
  const double folded = rate_of(blas, kFolded, m, width).tflops;
  const double emulated = rate_of(blas, kEmulated, m, width).tflops;
  std::printf("%s\n    {\"tokens\": %lld, \"width\": %lld, ", before, static_cast<long long>(m),
              static_cast<long long>(width));
  print_number("folded_tflops", folded, ", ");
  print_number("bf16_tflops", emulated, ", ");
  print_number("times", emulated > 0 ? folded / emulated : 0, "}");
  std::fflush(stdout);
}

/// E2M1 value `code` (0 to 7, sign in bit 3) times 2^exponent, as E4M3: exact for exponents of
/// -8 to 6. [OCP MX 1.0, 5.3.3; OCP FP8 1.0]
uint8_t folded(int code, int exponent) {
  constexpr int kMantissa[8] = {0, 1, 2, 3, 4, 6, 8, 12};  // doubled
  int mantissa = kMantissa[code & 7], power = exponent - 1;
  const auto sign = static_cast<uint8_t>((code & 8) << 4);
  if (mantissa == 0) return sign;
  while (mantissa < 8) {  // 1.mmm
    mantissa *= 2;
    --power;
  }
  int biased = power + 3 + 7;
  for (; biased < 1; ++biased) mantissa /= 2;  // subnormal
  return static_cast<uint8_t>(sign | (mantissa >= 8 ? biased << 3 : 0) | (mantissa & 7));
}

double value_of(int code, int exponent) {
  constexpr double kValues[8] = {0, 0.5, 1, 1.5, 2, 3, 4, 6};
  return std::ldexp(code & 8 ? -kValues[code & 7] : kValues[code & 7], exponent);
}

/// Prints how many of 64 × 64 sums of k folded products, blocks of 32 with exponents of a spread of
/// `spread` binades in each operand, are not the exact sum rounded once to FP32.
void print_fold(const Blas& blas, int64_t k, int spread, const char* before) {
  constexpr int64_t kSide = 64;
  uint64_t state = 1;
  const auto drawn = [&](int below) {
    state = state * 6364136223846793005ULL + 1442695040888963407ULL;
    return static_cast<int>((state >> 33) % static_cast<uint64_t>(below));
  };
  const auto size = static_cast<size_t>(kSide * k);
  std::vector<uint8_t> codes[2] = {std::vector<uint8_t>(size), std::vector<uint8_t>(size)};
  std::vector<double> values[2] = {std::vector<double>(size), std::vector<double>(size)};
  for (int side = 0; side < 2; ++side) {
    int exponent = 0;
    for (size_t i = 0; i < size; ++i) {
      if (i % 32 == 0) exponent = drawn(spread + 1) - spread / 2;
      const int code = drawn(16);
      codes[side][i] = folded(code, exponent);
      values[side][i] = value_of(code, exponent);
    }
  }
  const Product product(blas, kFolded, kSide, kSide, k);
  int64_t off = -1;
  if (product.has_algorithm()) {
    const Bytes a(size), b(size), d(kSide * kSide * 4), room(Product::kRoom);
    check(cudaMemcpy(a.get(), codes[0].data(), size, cudaMemcpyHostToDevice), "codes");
    check(cudaMemcpy(b.get(), codes[1].data(), size, cudaMemcpyHostToDevice), "codes");
    std::vector<float> sums(kSide * kSide);
    if (product.run(a, b, d, room, false)) {
      check(cudaMemcpy(sums.data(), d.get(), sums.size() * 4, cudaMemcpyDeviceToHost), "sums");
      off = 0;
      for (int64_t i = 0; i < kSide; ++i)
        for (int64_t j = 0; j < kSide; ++j) {
          double exact = 0;  // of at most 2^16 products of 2^±17: no bit is lost
          for (int64_t x = 0; x < k; ++x)
            exact += values[0][static_cast<size_t>(i * k + x)] *
                     values[1][static_cast<size_t>(j * k + x)];
          off += sums[static_cast<size_t>(j * kSide + i)] != static_cast<float>(exact);
        }
    }
  }
  std::printf("%s\n    {\"k\": %lld, \"spread\": %d, \"of\": %lld, ", before,
              static_cast<long long>(k), spread, static_cast<long long>(kSide * kSide));
  if (off >= 0)
    std::printf("\"not_exact\": %lld}", static_cast<long long>(off));
  else
    std::printf("\"not_exact\": null}");
}

}  // namespace

int main() {
  int cards = 0;
  if (cudaGetDeviceCount(&cards) != cudaSuccess || cards == 0) {
    std::fprintf(stderr, "probe: no card: no driver, or it finds none\n");
    return 1;
  }
  cudaDeviceProp card{};
  check(cudaGetDeviceProperties(&card, 0), "the card's properties");
  std::printf(
      "{\n  \"card\": \"%s\", \"sm\": %d, \"multiprocessors\": %d, \"memory\": %zu,\n"
      "  \"shared_bytes_of_a_block\": %zu, \"registers\": %d, \"l2_bytes\": %d,\n",
      card.name, 10 * card.major + card.minor, card.multiProcessorCount, card.totalGlobalMem,
      card.sharedMemPerBlockOptin, card.regsPerMultiprocessor, card.l2CacheSize);
  {
    constexpr size_t kSize = size_t{1} << 30;
    const Bytes from(kSize), to(kSize);
    const double time = seconds(4, [&] {
      check(cudaMemcpyAsync(to.get(), from.get(), kSize, cudaMemcpyDeviceToDevice), "a copy");
    });
    std::printf("  \"copy_gb_per_s\": %.0f,\n", 2e-9 * static_cast<double>(kSize) / time);
  }
  const Blas blas;
  if (blas.handle == nullptr) {
    std::printf("  \"cublaslt\": null\n}\n");
    return 0;
  }
  std::printf("  \"cublaslt\": %zu,\n  \"products\": [", blas.version());
  const char* before = "";
  for (const Mode& mode : kModes)
    for (const int64_t tokens : {8192, 16384, 32768})
      for (const int64_t width : {768, 2048, 4096}) {
        print_rate(blas, mode, tokens, width, before);
        before = ",";
      }
  std::printf("\n  ],\n  \"folded_beside_bf16\": [");
  before = "";
  for (const int64_t width : {4096, 8192})
    for (const int64_t tokens : {width, 2 * width}) {
      print_beside(blas, tokens, width, before);
      before = ",";
    }
  std::printf("\n  ],\n  \"folded_mxfp4\": [");
  before = "";
  for (const int64_t k : {768, 4096, 16384})
    for (const int spread : {0, 2, 4, 8}) {
      print_fold(blas, k, spread, before);
      before = ",";
    }
  std::printf("\n  ]\n}\n");
  return 0;
}
