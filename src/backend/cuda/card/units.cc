#include "backend/cuda/card/units.h"

#include <array>
#include <map>
#include <optional>
#include <string>

#include "base/error.h"
#include "base/shared_library.h"

#if __has_include(<cublasLt.h>)

#include <cublasLt.h>

namespace ng::cuda {
namespace {

constexpr size_t kLibraryBytes = size_t{32} << 20;  ///< that an algorithm may use
/// Sums are added in one order: not where blocks of threads add to D as they end.
constexpr uint32_t kReductions = CUBLASLT_REDUCTION_SCHEME_NONE |
                                 CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE |
                                 CUBLASLT_REDUCTION_SCHEME_OUTPUT_TYPE;

void check_blas(cublasStatus_t code, std::string_view what) {
  if (code == CUBLAS_STATUS_SUCCESS) return;
  throw Error({.place = "cuda",
               .problem = "cuBLASLt: " + std::string(what) + ": status " + std::to_string(code),
               .remedy = "--backend cuda-exact, which does without"});
}

/// The functions that are needed of it.
struct BlasLibrary {
  decltype(&cublasLtCreate) create = nullptr;
  decltype(&cublasLtDestroy) destroy = nullptr;
  decltype(&cublasLtMatmul) matmul = nullptr;
  decltype(&cublasLtMatmulAlgoGetHeuristic) find_algorithm = nullptr;
  decltype(&cublasLtMatmulDescCreate) create_product = nullptr;
  decltype(&cublasLtMatmulDescDestroy) destroy_product = nullptr;
  decltype(&cublasLtMatmulDescSetAttribute) set_product = nullptr;
  decltype(&cublasLtMatrixLayoutCreate) create_layout = nullptr;
  decltype(&cublasLtMatrixLayoutDestroy) destroy_layout = nullptr;
  decltype(&cublasLtMatmulPreferenceCreate) create_wish = nullptr;
  decltype(&cublasLtMatmulPreferenceDestroy) destroy_wish = nullptr;
  decltype(&cublasLtMatmulPreferenceSetAttribute) set_wish = nullptr;

  /// False where it is not on this machine or lacks one.
  bool load() {
    const SharedLibrary library("libcublasLt.so.13");
    return library.find("cublasLtCreate", create) && library.find("cublasLtDestroy", destroy) &&
           library.find("cublasLtMatmul", matmul) &&
           library.find("cublasLtMatmulAlgoGetHeuristic", find_algorithm) &&
           library.find("cublasLtMatmulDescCreate", create_product) &&
           library.find("cublasLtMatmulDescDestroy", destroy_product) &&
           library.find("cublasLtMatmulDescSetAttribute", set_product) &&
           library.find("cublasLtMatrixLayoutCreate", create_layout) &&
           library.find("cublasLtMatrixLayoutDestroy", destroy_layout) &&
           library.find("cublasLtMatmulPreferenceCreate", create_wish) &&
           library.find("cublasLtMatmulPreferenceDestroy", destroy_wish) &&
           library.find("cublasLtMatmulPreferenceSetAttribute", set_wish);
  }
};

cudaDataType_t data_type(MatmulType type) {
  switch (type) {
    case MatmulType::fp32:
      return CUDA_R_32F;
    case MatmulType::bf16:
      return CUDA_R_16BF;
    case MatmulType::e4m3:
      return CUDA_R_8F_E4M3;
    case MatmulType::e5m2:
      return CUDA_R_8F_E5M2;
    case MatmulType::e2m1:
      return CUDA_R_4F_E2M1;
    case MatmulType::int8:
      return CUDA_R_8I;
    case MatmulType::int32:
      return CUDA_R_32I;
  }
  return CUDA_R_32F;
}

cublasLtMatmulMatrixScale_t scale_mode(MatmulScale scale) {
  switch (scale) {
    case MatmulScale::outer:
      return CUBLASLT_MATMUL_MATRIX_SCALE_OUTER_VEC_32F;
    case MatmulScale::vec16_ue4m3:
      return CUBLASLT_MATMUL_MATRIX_SCALE_VEC16_UE4M3;
    case MatmulScale::vec32_ue8m0:
      return CUBLASLT_MATMUL_MATRIX_SCALE_VEC32_UE8M0;
    case MatmulScale::vec128:
      return CUBLASLT_MATMUL_MATRIX_SCALE_VEC128_32F;
    case MatmulScale::block128:
      return CUBLASLT_MATMUL_MATRIX_SCALE_BLK128x128_32F;
    case MatmulScale::none:
    case MatmulScale::tensor:
      break;
  }
  return CUBLASLT_MATMUL_MATRIX_SCALE_SCALAR_32F;
}

/// A product and its matrices in the library's words.
class BlasProduct {
 public:
  /// `somewhere`: for scales that lie nowhere yet, which the library is only asked about.
  BlasProduct(const BlasLibrary& library, const Matmul& p, const void* somewhere)
      : library_(library), somewhere_(somewhere) {
    const bool is_int = p.d_type == MatmulType::int32;
    check_blas(library.create_product(&product, is_int ? CUBLAS_COMPUTE_32I : CUBLAS_COMPUTE_32F,
                                      is_int ? CUDA_R_32I : CUDA_R_32F),
               "a product");
    describe(p.a, CUBLASLT_MATMUL_DESC_TRANSA, CUBLASLT_MATMUL_DESC_A_SCALE_MODE,
             CUBLASLT_MATMUL_DESC_A_SCALE_POINTER);
    describe(p.b, CUBLASLT_MATMUL_DESC_TRANSB, CUBLASLT_MATMUL_DESC_B_SCALE_MODE,
             CUBLASLT_MATMUL_DESC_B_SCALE_POINTER);
    a = layout(p.a.type, p.a.transposed ? p.k : p.m, p.a.transposed ? p.m : p.k, p.a.leading);
    b = layout(p.b.type, p.b.transposed ? p.n : p.k, p.b.transposed ? p.k : p.n, p.b.leading);
    d = layout(p.d_type, p.m, p.n, p.d_leading);
  }
  ~BlasProduct() {
    for (cublasLtMatrixLayout_t matrix : {a, b, d})
      if (matrix != nullptr) library_.destroy_layout(matrix);
    library_.destroy_product(product);
  }
  BlasProduct(const BlasProduct&) = delete;
  BlasProduct& operator=(const BlasProduct&) = delete;

  cublasLtMatmulDesc_t product = nullptr;
  cublasLtMatrixLayout_t a = nullptr, b = nullptr, d = nullptr;

 private:
  template <class Value>
  void set(cublasLtMatmulDescAttributes_t attribute, const Value& value) {
    check_blas(library_.set_product(product, attribute, &value, sizeof value), "an attribute");
  }
  void describe(const MatmulOperand& x, cublasLtMatmulDescAttributes_t turn,
                cublasLtMatmulDescAttributes_t mode, cublasLtMatmulDescAttributes_t pointer) {
    set(turn, x.transposed ? CUBLAS_OP_T : CUBLAS_OP_N);
    if (x.scale == MatmulScale::none) return;
    set(mode, scale_mode(x.scale));
    set(pointer, x.scales != nullptr ? x.scales : somewhere_);
  }
  cublasLtMatrixLayout_t layout(MatmulType type, int64_t rows, int64_t cols, int64_t leading) {
    cublasLtMatrixLayout_t made = nullptr;
    check_blas(library_.create_layout(&made, data_type(type), static_cast<uint64_t>(rows),
                                      static_cast<uint64_t>(cols), leading),
               "a layout");
    return made;
  }

  const BlasLibrary& library_;
  const void* somewhere_;
};

class CardUnits final : public Units {
 public:
  CardUnits(const BlasLibrary& library, const CardStream& stream, const Card& card)
      : library_(library), stream_(stream), card_(card) {
    check_blas(library_.create(&handle_), "its start");
    if (cudaMalloc(&room_, kLibraryBytes) != cudaSuccess)
      check_blas(CUBLAS_STATUS_ALLOC_FAILED, "memory");
  }
  ~CardUnits() override {
    cudaFree(room_);
    library_.destroy(handle_);
  }

  [[nodiscard]] const Card& card() const override { return card_; }
  [[nodiscard]] size_t bytes() const override { return kLibraryBytes; }

  void multiply(const Matmul& p) override {
    const BlasProduct made(library_, p, room_);
    const std::optional<cublasLtMatmulAlgo_t>& algorithm = algorithm_of(p, &made);
    if (!algorithm)
      throw Error({.place = "cuda",
                   .problem = "cuBLASLt has no algorithm for a product of " + std::to_string(p.m) +
                              " x " + std::to_string(p.n) + " x " + std::to_string(p.k),
                   .remedy = "--backend cuda-exact, which does without"});
    const float alpha = p.alpha, beta = p.add ? 1.0f : 0.0f;
    const int32_t whole_alpha = 1, whole_beta = p.add ? 1 : 0;
    const bool is_int = p.d_type == MatmulType::int32;
    const void* by = is_int ? static_cast<const void*>(&whole_alpha) : &alpha;
    const void* before = is_int ? static_cast<const void*>(&whole_beta) : &beta;
    check_blas(
        library_.matmul(handle_, made.product, by, p.a.data, made.a, p.b.data, made.b, before, p.d,
                        made.d, p.d, made.d, &*algorithm, room_, kLibraryBytes, stream_.stream),
        "a product");
  }

  [[nodiscard]] std::string refusal(const Matmul& p) override {
    std::string why = matmul_refusal(card_, p);
    if (why.empty() && !algorithm_of(p)) why = "cuBLASLt has no algorithm for it on this card";
    return why;
  }

 private:
  /// Of memory, as algorithms ask for: a power of two up to 256; of what lies nowhere yet, 256.
  static uint32_t alignment_of(const void* data) {
    const auto at = reinterpret_cast<uintptr_t>(data) | 256;
    return static_cast<uint32_t>(at & (~at + 1));
  }

  /// What an algorithm is chosen by.
  using Key = std::array<int64_t, 16>;
  static Key key_of(const Matmul& p) {
    const auto number = [](auto x) { return static_cast<int64_t>(x); };
    return {p.m,
            p.n,
            p.k,
            number(p.a.type),
            number(p.a.transposed),
            p.a.leading,
            number(p.a.scale),
            number(p.b.type),
            number(p.b.transposed),
            p.b.leading,
            number(p.b.scale),
            number(p.d_type),
            p.d_leading,
            alignment_of(p.a.data),
            alignment_of(p.b.data),
            alignment_of(p.d)};
  }

  /// The library's first choice, asked for once for each shape: the same in every step. None: it
  /// has none.
  const std::optional<cublasLtMatmulAlgo_t>& algorithm_of(const Matmul& p,
                                                          const BlasProduct* known = nullptr) {
    const auto [place, is_new] = algorithms_.try_emplace(key_of(p));
    if (!is_new) return place->second;
    std::optional<BlasProduct> own;
    const BlasProduct& made = known != nullptr ? *known : own.emplace(library_, p, room_);
    cublasLtMatmulPreference_t wish = nullptr;
    check_blas(library_.create_wish(&wish), "a preference");
    const auto set = [&](cublasLtMatmulPreferenceAttributes_t attribute, const auto& value) {
      check_blas(library_.set_wish(wish, attribute, &value, sizeof value), "a preference");
    };
    set(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, kLibraryBytes);
    set(CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, kReductions);
    set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, alignment_of(p.a.data));
    set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, alignment_of(p.b.data));
    set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, alignment_of(p.d));
    set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, alignment_of(p.d));
    cublasLtMatmulHeuristicResult_t choice{};
    int found = 0;
    const cublasStatus_t status = library_.find_algorithm(handle_, made.product, made.a, made.b,
                                                          made.d, made.d, wish, 1, &choice, &found);
    library_.destroy_wish(wish);
    if (status == CUBLAS_STATUS_SUCCESS && found > 0 && choice.state == CUBLAS_STATUS_SUCCESS)
      place->second = choice.algo;
    return place->second;
  }

  BlasLibrary library_;
  const CardStream& stream_;
  const Card& card_;
  cublasLtHandle_t handle_ = nullptr;
  void* room_ = nullptr;
  std::map<Key, std::optional<cublasLtMatmulAlgo_t>> algorithms_;
};

}  // namespace

std::unique_ptr<Units> make_card_units(const CardStream& stream, const Card& card) {
  BlasLibrary library;
  if (!library.load()) return nullptr;
  return std::make_unique<CardUnits>(library, stream, card);
}

}  // namespace ng::cuda

#else

namespace ng::cuda {
std::unique_ptr<Units> make_card_units(const CardStream& /* stream */, const Card& /* card */) {
  return nullptr;
}
}  // namespace ng::cuda

#endif
