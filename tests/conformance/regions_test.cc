// Second scales of rows and of regions: codes, both scales and products are defined to the bit.
// [linear.md 7]
#include <limits>

#include "operands.h"

namespace ng::conformance {
namespace {

constexpr Block kRow = {.kind = Block::Kind::row};
constexpr Block tile(int rows, int cols) {
  return {.kind = Block::Kind::tile, .rows = rows, .cols = cols};
}

Operand nvfp4(const Block& region) {
  Operand cast = operand_of("nvfp4");
  cast.tensor_block = region;
  return cast;
}

/// Of one row, of several, across the borders of panels and chunks, larger than the operand.
std::vector<Operand> casts() {
  std::vector<Operand> all;
  for (const Block& region : {kRow, tile(1, 128), tile(2, 64), tile(5, 48), tile(96, 4096)}) {
    all.push_back(nvfp4(region));
    all.push_back(nvfp4(region).rounded_by(Rounding::stochastic));
    all.push_back(nvfp4(region));
    all.back().fit = {6, 4};
    all.back().scale_max = 256;
  }
  for (const Block& region : {tile(16, 16), tile(32, 96)}) {
    all.push_back(nvfp4(region));
    all.back().block = tile(16, 16);
    all.push_back(all.back());
    all.back().fit = {6, 4};
    all.back().select = Select::mae;
  }
  const auto add = [&](const Block& region, const auto& change) {
    all.push_back(nvfp4(region));
    change(all.back());
  };
  for (const Block& region : {kRow, tile(1, 128)}) {
    add(region, [](Operand& o) { o.tensor_scale = ScaleKind::pow2; });
    add(region, [](Operand& o) { o.scale_rule = ScaleRule::up; });
    add(region, [](Operand& o) { o.element = &element_format("int4"); });
    add(region, [](Operand& o) { o.prescale = 0.75f; });
    add(region, [](Operand& o) { o.subnormals = Subnormals::flush; });
    add(region, [](Operand& o) {
      o.rounding = Rounding::stochastic;
      o.sr_bits = 32;
      o.fit = {5, 4};
    });
  }
  return all;
}

/// +0 for -0, which elements that are held as integers do not know.
Matrix without_signs(Matrix values) {
  for (int64_t r = 0; r < values.rows(); ++r)
    for (int64_t c = 0; c < values.cols(); ++c) values.at(r, c) += 0.0f;
  return values;
}

Results parts_of(const Place& with, const OperandSpec& spec, const Matrix& source) {
  const Tensor x = with.activation(source);
  const Prepared made = prepare(with, spec, x, drawing());
  const Unpacked all = unpack(with, made.packed);
  expect_part_of(with, made.packed, all);
  const ScaleShape blocks = scale_shape(spec.cast, spec.rows, spec.k_padded()),
                   regions = tensor_scale_shape(spec.cast, spec.rows, spec.k_padded());
  const auto numbers = [&](const ScaleShape& shape) {
    return with.buffer(std::vector<float>(static_cast<size_t>(shape.rows * shape.cols)));
  };
  Buffer<float> scales = numbers(blocks), second = numbers(regions);
  Tensor none = with.fp32(Matrix(1, 1));
  with.execute(Unpack{.packed = &made.packed,
                      .values = none,
                      .scales = scales.data(),
                      .tensor_scale = second.data()});
  return {{"values", all.values},
          {"codes", all.codes},
          {"scales", Matrix::row(scales.values())},
          {"second scales", Matrix::row(second.values())}};
}

struct Case {
  Operand cast;
  int hadamard = 0;
  int64_t rows = 19, k = 150;
  Storage storage = Storage::fp32;
  bool signed_zeros = true;  ///< else held as integers interleaved, where they can be
  float poison = 0;
};

void check(const Case& of) {
  for (const Orientation& o : {kOrientations[0], kOrientations[2]}) {
    OperandSpec spec =
        spec_of(of.cast, o, of.rows, of.k, of.hadamard, multiple_of(of.cast, of.cast, of.hadamard));
    spec.signed_zeros = of.signed_zeros;
    Matrix source = source_of(spec, 90);
    if (of.poison != 0) source.at(source.rows() / 2, source.cols() / 2) = of.poison;
    conform(
        fmt::format("{} hadamard {} {}x{} contract {} of {}", describe(of.cast), of.hadamard,
                    of.rows, of.k, static_cast<int>(o.contract), of.poison),
        of.storage,
        [&](const Place& with) {
          Results made = parts_of(with, spec, source);
          if (of.signed_zeros) return made;
          made.erase("codes");
          made.at("values") = without_signs(made.at("values"));
          return made;
        },
        exactly, of.poison == 0 ? kOperands : Turns{});
  }
}

TEST(Conformance, SecondScalesOfRegions) {
  for (const Operand& cast : casts()) {
    check({.cast = cast});
    check({.cast = cast,
           .hadamard = 16,
           .rows = 70,
           .k = 160,
           .storage = Storage::bf16,
           .signed_zeros = false});
  }
}

TEST(Conformance, SecondScalesOfCorrectedRows) {
  Operand cast = nvfp4(kRow);
  cast.rounding = Rounding::eden;
  cast.scale_max = 255.99f;
  check({.cast = cast, .hadamard = 64, .signed_zeros = false});
  cast.sr_bits = 32;
  check({.cast = cast, .hadamard = 16, .storage = Storage::bf16});
}

TEST(Conformance, SecondScalesOfRegionsThatAreNotFinite) {
  constexpr float kInf = std::numeric_limits<float>::infinity();
  for (const float bad : {std::numeric_limits<float>::quiet_NaN(), kInf, 3e38f, 1e-44f})
    for (const Block& region : {kRow, tile(2, 64)}) {
      check({.cast = nvfp4(region), .rows = 9, .poison = bad});
      check({.cast = nvfp4(region).rounded_by(Rounding::stochastic), .rows = 9, .poison = bad});
      if (!std::isnan(bad))  // a transform's NaN has any sign, and so have zeros made of it
        check({.cast = nvfp4(region), .hadamard = 32, .rows = 9, .poison = bad});
    }
}

// An outlier costs the rows of its region alone.
TEST(Conformance, AnOutlierStaysInItsRegion) {
  for (const Block& region : {kRow, tile(1, 128), Block()}) {
    OperandSpec spec = spec_of(nvfp4(region), kOrientations[0], 33, 256, 0, 16);
    spec.signed_zeros = true;
    Matrix source = Matrix(33, 256).fill_uniform(91), outlier = source;
    outlier.at(0, 5) = 1e4f;
    conform(describe(spec.cast), [&](const Place& with) {
      const Results plain = parts_of(with, spec, source), with_it = parts_of(with, spec, outlier);
      bool same = true;
      for (int64_t r = 1; r < spec.rows; ++r)
        for (int64_t k = 0; k < spec.k; ++k)
          same &= plain.at("codes").at(r, k) == with_it.at("codes").at(r, k);
      EXPECT_EQ(same, region.kind != Block::Kind::tensor) << describe(spec.cast);
      return with_it;
    });
  }
}

TEST(Conformance, RoundingBackwardByRegions) {
  for (const Block& region : {kRow, tile(1, 128), tile(3, 32)})
    for (const RoundingGradient gradient : {RoundingGradient::clip, RoundingGradient::dge}) {
      Operand cast = nvfp4(region);
      cast.gradient = gradient;
      const OperandSpec spec = spec_of(cast, kOrientations[0], 19, 150, 0, 16);
      const Matrix source = source_of(spec, 70);
      conform(describe(cast), [&](const Place& with) {
        const Tensor x = with.fp32(spread(19, spec.k_padded(), 71, 3)),
                     from = with.activation(source);
        Tensor y = with.fp32(Matrix(19, spec.k_padded()));
        PrepareContext context = drawing();
        context.update_history = false;
        with.execute(
            RoundingBackward{.y = y, .x = x, .spec = spec, .source = from, .context = context});
        return Results{{"y", y.values()}};
      });
    }
}

// Large enough for a backend that reads the source in parts.
TEST(Conformance, BothOperandsHaveRegions) {
  const Matrix source = spread(300, 600, 71, 3);
  for (const Block& region : {kRow, tile(1, 128), tile(2, 48)}) {
    const Operand turned = nvfp4(region).rounded_by(Rounding::stochastic);
    const OperandSpec first = spec_of(nvfp4(region), {Contract::cols, Side::left}, 300, 600, 0, 16),
                      second = spec_of(turned, {Contract::rows, Side::left}, 600, 300, 16, 16);
    conform(describe(turned), [&](const Place& with) {
      const Tensor x = with.activation(source);
      Prepared a = reserve(with, first), c = reserve(with, second);
      with.execute(
          PrepareBoth{.made = {{{&a.packed, drawing()}, {&c.packed, drawing(Purpose::wgrad_grad)}}},
                      .source = x});
      return Results{{"first", without_signs(unpack(with, a.packed).values)},
                     {"second", without_signs(unpack(with, c.packed).values)}};
    });
  }
}

/// An emulated card takes one of so many products.
constexpr int kCardEvery = 3;

struct Product {
  Operand left, right;
  int hadamard = 0;
  int64_t m = 13, n = 50, k = 300;
  Into into = Into::overwrite;
  bool bias = false;
  Compute round = Compute::fp32;
  float size = 1;  ///< of the left values
};

void check(const Product& p) {
  const int64_t multiple = multiple_of(p.left, p.right, p.hadamard);
  const OperandSpec left = spec_of(p.left, kOrientations[0], p.m, p.k, p.hadamard, multiple),
                    right = spec_of(p.right, kOrientations[3], p.n, p.k, p.hadamard, multiple);
  Matrix a = source_of(left, 80);
  for (int64_t r = 0; r < a.rows(); ++r)
    for (int64_t c = 0; c < a.cols(); ++c) a.at(r, c) *= p.size;
  const Matrix w = source_of(right, 81);
  const Matrix bias = Matrix(1, p.n).fill_uniform(82);
  const auto product = [&](const Place& with) {
    const Tensor from_a = with.fp32(a), from_w = with.fp32(w), bias_row = with.fp32(bias);
    const Prepared pa = prepare(with, left, from_a, drawing()),
                   pw = prepare(with, right, from_w, drawing(Purpose::dgrad_weight));
    Tensor y = with.fp32(Matrix(p.m, p.n, 3, 2).fill_uniform(83));
    with.execute(Gemm{.y = y,
                      .a = &pa.packed,
                      .b = &pw.packed,
                      .into = p.into,
                      .bias = p.bias ? bias_row : ConstView{},
                      .round = p.round});
    return Results{{"y", y.values()}};
  };
  conform(fmt::format("{} · {} {}x{}x{} hadamard {}", describe(p.left), describe(p.right), p.m, p.n,
                      p.k, p.hadamard),
          Storage::fp32, product, exactly, {.card_every = kCardEvery, .multiplies = true});
}

TEST(Conformance, ProductsOfRegions) {
  Operand int4 = nvfp4(tile(1, 128)), wide = nvfp4(tile(32, 64));
  int4.element = &element_format("int4");
  wide.block = tile(16, 16);
  const std::vector<Operand> some = {nvfp4(kRow), nvfp4(tile(1, 128)), nvfp4(tile(2, 48)), int4,
                                     wide};
  for (const Operand& left : some) {
    for (const Operand& right : some) check({.left = left, .right = right});
    for (const char* name : {"nvfp4", "mxfp4", "mxfp8_e4m3", "bf16", "fp8_e4m3", "int8"}) {
      check({.left = left, .right = operand_of(name)});
      check({.left = operand_of(name), .right = left});
    }
    check({.left = left, .right = left, .hadamard = 16, .k = 150, .bias = true});
    check({.left = left, .right = left, .m = 70, .n = 20, .k = 2500, .into = Into::add});
    check({.left = left, .right = left, .n = 48, .bias = true, .round = Compute::bf16});
    for (const float size : {0x1p-100f, 0x1p-20f, 0x1p80f})  // scales near the ends of FP32
      check({.left = left, .right = left, .size = size});
  }
}

}  // namespace
}  // namespace ng::conformance
