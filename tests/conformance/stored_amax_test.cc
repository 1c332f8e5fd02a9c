// The largest magnitude that an operation finds while it writes is, bit by bit, what
// FindOperandAmax has of what it wrote, and an operand that is told it is the one that looks for
// itself.
#include <limits>

#include "attention.h"
#include "operands.h"

namespace ng::conformance {
namespace {

constexpr float kAmaxInf = std::numeric_limits<float>::infinity();
constexpr float kAmaxNan = std::numeric_limits<float>::quiet_NaN();

/// What there is among the values; or all of them are so.
enum class Among { all_finite, nan, infinity, only_nan, zeros, subnormals };
constexpr Among kAmong[] = {Among::all_finite, Among::nan,   Among::infinity,
                            Among::only_nan,   Among::zeros, Among::subnormals};

/// Uniform, but for those.
Matrix values_with(Among among, Matrix x, uint64_t seed) {
  x.fill_uniform(seed, 3);
  for (int64_t r = 0; r < x.rows(); ++r)
    for (int64_t c = 0; c < x.cols(); ++c) {
      float& value = x.at(r, c);
      const bool is_one = r == x.rows() / 2 && c == x.cols() / 3;
      if (among == Among::zeros) value = c % 2 == 0 ? 0.0f : -0.0f;
      if (among == Among::subnormals) value *= 0x1p-140f;
      if (among == Among::only_nan || (among == Among::nan && is_one)) value = -kAmaxNan;
      if (among == Among::infinity && is_one) value = -kAmaxInf;
    }
  return x;
}

/// By the definition.
StoredAmax amax_of(const Matrix& x) {
  StoredAmax amax;
  bool has_nan = false;
  for (int64_t r = 0; r < x.rows(); ++r)
    for (int64_t c = 0; c < x.cols(); ++c) {
      const float magnitude = std::abs(x.at(r, c));
      if (magnitude > amax.value) amax.value = magnitude;
      has_nan = has_nan || std::isnan(magnitude);
    }
  amax.or_infinite = has_nan ? kAmaxInf : amax.value;
  return amax;
}

OperandSpec spec_of_stored(std::string_view cast, const Matrix& x) {
  return spec_of(operand_of(cast), kOrientations[0], x.rows(), x.cols(), 0, 16);
}

/// An output, and where its largest magnitude goes: something is there before.
struct Noted {
  Noted(const Place& with, const Matrix& like)
      : y(with.activation(like)), amax(with.buffer<StoredAmax>({{3e38f, 3e38f}})) {}
  Tensor y;
  Buffer<StoredAmax> amax;

  void expect_found(const Place& with, const char* what) const {
    const Matrix stored = y.values();
    const StoredAmax found = amax.values().front(), want = amax_of(stored);
    EXPECT_EQ(float_bits(found.value), float_bits(want.value)) << what;
    EXPECT_EQ(float_bits(found.or_infinite), float_bits(want.or_infinite)) << what;
    const auto operand = [&](std::string_view cast) {
      Buffer<float> own = with.buffer<float>({-1});
      with.execute(
          FindOperandAmax{.amax = own.data(), .spec = spec_of_stored(cast, stored), .source = y});
      return own.values().front();
    };
    EXPECT_EQ(float_bits(found.value), float_bits(operand("nvfp4"))) << what;
    EXPECT_EQ(float_bits(found.or_infinite), float_bits(operand("fp8_e4m3"))) << what;
  }
};

struct AmaxCase {
  Shape shape;
  Among among;
  [[nodiscard]] Matrix values(uint64_t seed) const {
    return values_with(among, shape.matrix(), seed);
  }
};

void expect_norms(const Place& with, const AmaxCase& of) {
  const Tensor x = with.activation(of.values(1));
  const Tensor gain = with.parameter(Matrix(1, of.shape.cols).fill_uniform(2, 2)),
               bias = with.parameter(Matrix(1, of.shape.cols).fill_uniform(3));
  for (const NormKind kind : {NormKind::rms, NormKind::layer}) {
    Noted y(with, of.shape.matrix()), dx(with, of.values(4));
    const bool is_layer = kind == NormKind::layer;
    with.execute(Norm{.kind = kind,
                      .y = y.y,
                      .x = x,
                      .gain = gain,
                      .bias = is_layer ? bias : ConstView{},
                      .eps = 1e-5f,
                      .amax = y.amax.data()});
    y.expect_found(with, "norm");
    Tensor dgain = with.fp32(Matrix(1, of.shape.cols).fill(0));
    with.execute(NormBackward{.kind = kind,
                              .dx = dx.y,
                              .dgain = dgain,
                              .dresidual = dx.y,
                              .dy = with.activation(of.values(5)),
                              .x = x,
                              .gain = gain,
                              .eps = 1e-5f,
                              .amax = dx.amax.data()});
    dx.expect_found(with, "norm_backward");
  }
}

void expect_activations(const Place& with, const AmaxCase& of) {
  const Tensor x = with.activation(of.values(1)), up = with.activation(of.values(2)),
               dy = with.activation(of.values(3));
  for (const GeluKind kind : {GeluKind::tanh, GeluKind::erf}) {
    Noted y(with, of.shape.matrix()), dx(with, of.shape.matrix());
    with.execute(Gelu{.y = y.y, .x = x, .kind = kind, .amax = y.amax.data()});
    with.execute(GeluBackward{.dx = dx.y, .dy = dy, .x = x, .kind = kind, .amax = dx.amax.data()});
    y.expect_found(with, "gelu");
    dx.expect_found(with, "gelu_backward");
  }
  Noted y(with, of.shape.matrix()), dgate(with, of.shape.matrix()), dup(with, of.shape.matrix());
  with.execute(Swiglu{.y = y.y, .gate = x, .up = up, .amax = y.amax.data()});
  with.execute(SwigluBackward{.dgate = dgate.y,
                              .dup = dup.y,
                              .dy = dy,
                              .gate = x,
                              .up = up,
                              .dgate_amax = dgate.amax.data(),
                              .dup_amax = dup.amax.data()});
  y.expect_found(with, "swiglu");
  dgate.expect_found(with, "dgate");
  dup.expect_found(with, "dup");
}

// No rows, one value, rows apart, and more than one block of a card's threads and, one row after
// the other or apart, of a worker of the cpu backend.
constexpr Shape kNotedShapes[] = {{0, 5, 0, 0}, {1, 1, 0, 0}, {3, 7, 2, 1}, {9, 257, 0, 0}};
constexpr Shape kBlocksOfWorkers[] = {{9, 4099, 0, 0}, {9, 4099, 3, 1}};

void expect_amax_of_all(std::span<const Shape> shapes, std::span<const Among> cases,
                        const Turns& turns) {
  for (const Shape& shape : shapes)
    for (const Storage storage : kStorages)
      for (const Among among : cases) {
        const AmaxCase of{shape, among};
        conform(
            fmt::format("amax of {}, case {}", shape.text(), static_cast<int>(among)), storage,
            [&](const Place& with) -> Results {
              expect_norms(with, of);
              expect_activations(with, of);
              return {};
            },
            exactly, turns);
      }
}

TEST(StoredAmax, IsThatOfWhatWasWritten) {
  expect_amax_of_all(kNotedShapes, kAmong, {.card_every = 2});
  expect_amax_of_all(kBlocksOfWorkers, std::span(kAmong).first(1), {.card_every = 6});
}

/// Of 70 queries, whose heads a card's matrix units take or not.
Results attend(const Place& with, int head_dim, Among among) {
  const AttentionShape shape = attention::one_sequence(70, 2, 1, head_dim);
  const auto heads = [&](int count, uint64_t seed) {
    return Matrix(70, int64_t{count} * head_dim, 8, 8).fill_uniform(seed);
  };
  Noted out(with, heads(2, 0));
  Tensor lse = with.fp32(Matrix(70, 2));
  with.execute(Attention{.out = out.y,
                         .lse = lse,
                         .q = with.activation(heads(2, 1)),
                         .k = with.activation(heads(1, 2)),
                         .v = with.activation(values_with(among, heads(1, 3), 3)),
                         .shape = shape,
                         .amax = out.amax.data()});
  out.expect_found(with, "attention");
  return {};
}

TEST(StoredAmax, IsThatOfWhatAttentionWrote) {
  for (const int head_dim : {16, 20})
    for (const Storage storage : kStorages)
      for (const Among among : kAmong)
        conform(
            fmt::format("amax of heads of {}, case {}", head_dim, static_cast<int>(among)), storage,
            [&](const Place& with) { return attend(with, head_dim, among); }, exactly,
            {.card_every = 2}, [](const Target&) { return exactly; });
}

/// Casts with a scale of the whole, by what it is made of.
std::vector<Operand> casts_of_the_whole() {
  std::vector<Operand> casts;
  for (const std::string_view name : {"fp8_e4m3", "fp8_e5m2", "nvfp4", "int8", "int4"}) {
    casts.push_back(operand_of(name));
    if (name != "nvfp4") casts.back().block = {.kind = Block::Kind::tensor};
  }
  casts.push_back(casts[0]);
  casts.back().scale = ScaleKind::pow2;
  casts.push_back(casts[3]);
  casts.back().rounding = Rounding::stochastic;
  casts.push_back(casts[4]);
  casts.back().scale_of = ScaleOf::mean_abs;
  casts.push_back(casts[0]);
  casts.back().scaling = Scaling::delayed;
  casts.back().amax_history = 2;
  return casts;
}

Results told_or_not(const Place& with, const OperandSpec& spec, const Matrix& source) {
  const StoredAmax amax = amax_of(source);
  const bool is_delayed = spec.cast.scaling == Scaling::delayed;
  const bool leaves_nan_aside = is_delayed || spec.cast.scale == ScaleKind::e4m3;
  Buffer<float> known = with.buffer<float>({leaves_nan_aside ? amax.value : amax.or_infinite});
  Results results;
  for (const bool is_told : {false, true})
    for (const bool updates : {false, true}) {
      if (!is_delayed && updates) continue;  // means nothing
      Buffer<float> encode_scale = with.buffer<float>({8}), history = with.buffer<float>({0.25, 1});
      PrepareContext context = drawing();
      context.delayed = {encode_scale.data(), history.data()};
      context.update_history = updates;
      context.amax = is_told ? known.data() : nullptr;
      Results made = unpacked(with, spec, source, context);
      made["history"] = Matrix::row(history.values());
      for (auto& [name, values] : made) {
        const auto [own, is_own] = results.try_emplace(fmt::format("{} {}", name, updates), values);
        if (!is_own) compare({{name, values}}, {{name, own->second}}, exactly);
      }
    }
  return results;
}

TEST(StoredAmax, MakesTheOperandThatLooksForItself) {
  for (const Operand& cast : casts_of_the_whole())
    for (const Orientation& o : {kOrientations[0], kOrientations[3]})
      for (const Among among : {Among::all_finite, Among::nan, Among::infinity, Among::zeros}) {
        const OperandSpec spec = spec_of(cast, o, 5, 40, 0, multiple_of(cast, cast, 0));
        const bool is_straight = o.contract == Contract::cols;
        const Matrix source =
            values_with(among, is_straight ? Matrix(5, 40, 3) : Matrix(40, 5, 3), 7);
        conform(
            fmt::format("told {}, case {}", describe(cast), static_cast<int>(among)), Storage::fp32,
            [&](const Place& with) { return told_or_not(with, spec, source); }, exactly, kOperands);
      }
}

}  // namespace
}  // namespace ng::conformance
