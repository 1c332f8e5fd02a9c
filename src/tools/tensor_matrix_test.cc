#include "tools/tensor_matrix.h"

#include <numeric>

#include "support/scratch_folder.h"

namespace ng {
namespace {

/// A file with one tensor (2, 3, 4) of the numbers from 0 on.
class TensorMatrixOf24 : public ScratchFolder {
 protected:
  void SetUp() override {
    ScratchFolder::SetUp();
    make_folders(folder_);
    std::vector<float> values(24);
    std::iota(values.begin(), values.end(), 0.0f);
    io::write_safetensors(in("x"), {{"x", "F32", {2, 3, 4}, values.data()}});
    file_.emplace(in("x"));
  }
  [[nodiscard]] const io::SafetensorsEntry& entry() const { return file_->at("x"); }
  [[nodiscard]] std::vector<float> read(const TensorMatrix& matrix, const Panel& panel) const {
    std::vector<float> values(static_cast<size_t>(panel.rows * panel.cols));
    matrix.read(io::FloatReader(entry()), panel, values);
    return values;
  }
  [[nodiscard]] TensorMatrix along(int64_t axis) const { return {entry(), axis}; }

  std::optional<io::Safetensors> file_;
};

TEST_F(TensorMatrixOf24, LiesAsItsAxisAsks) {
  const TensorMatrix last = along(-1), first = along(0), middle = along(1);
  EXPECT_EQ(last.rows(), 6);
  EXPECT_EQ(last.cols(), 4);
  EXPECT_EQ(first.rows(), 2);  // blocks along its rows
  EXPECT_EQ(first.cols(), 12);
  EXPECT_EQ(first.along(), Contract::rows);
  EXPECT_EQ(middle.rows(), 8);
  EXPECT_EQ(middle.cols(), 3);
  EXPECT_TRUE(middle.is_gathered() && !last.is_gathered() && !first.is_gathered());
  EXPECT_NE(error_of([&] { (void)along(3); }).find("has 3 dimensions, --axis 3"),
            std::string::npos);
}

TEST_F(TensorMatrixOf24, PanelsAreReadAndWrittenBack) {
  EXPECT_EQ(read(along(2), {1, 2, 1, 2}), (std::vector<float>{5, 6, 9, 10}));
  const TensorMatrix middle = along(1);
  EXPECT_EQ(read(middle, {3, 2, 0, 3}), (std::vector<float>{3, 7, 11, 12, 16, 20}));
  for (const Panel& panel : {Panel{0, 8, 0, 3}, Panel{2, 5, 1, 2}}) {
    const std::vector<float> values = read(middle, panel);
    middle.for_pieces(panel, 8, 3, [&](const TensorMatrix::Piece& piece) {
      std::vector<float> together(static_cast<size_t>(piece.size()));
      gather(piece, values.data(), together.data());
      for (size_t i = 0; i < together.size(); ++i)  // a value of the tensor is its place
        EXPECT_EQ(together[i], static_cast<float>(piece.place + static_cast<int64_t>(i)));
    });
  }
}

TEST_F(TensorMatrixOf24, ScalesHaveTheShapeOfTheBlocks) {
  using Shape = std::vector<int64_t>;
  Operand cast = operand_of("mxfp4");
  cast.block.cols = 2;
  EXPECT_EQ(along(-1).scale_shape(cast), (Shape{2, 3, 2}));
  EXPECT_EQ(along(1).scale_shape(cast), (Shape{2, 2, 4}));
  cast.block.rows = 4;
  EXPECT_EQ(along(-1).scale_shape(cast), (Shape{2, 2}));
  EXPECT_EQ(along(-1).scale_shape(operand_of("fp8_e4m3")), (Shape{1}));
  cast.block = {.kind = Block::Kind::row};
  EXPECT_EQ(along(0).scale_shape(cast), (Shape{1, 3, 4}));
}

// Sizes beside a 0 are any numbers: no product of them overflows, and nothing is made for each.
TEST(TensorMatrix, OfNothingHasNoLargeSizes) {
  constexpr int64_t kLarge = int64_t{1} << 62;
  using Shape = std::vector<int64_t>;
  const Shape shapes[] = {{kLarge, kLarge, 0},
                          {0, kLarge, kLarge},
                          {kLarge, 0, kLarge},
                          {INT64_MAX, 0},
                          {0, INT64_MAX}};
  for (const Shape& shape : shapes) {
    const io::SafetensorsEntry entry{
        .name = "x", .dtype = "F32", .shape = shape, .file = "f", .source = nullptr};
    for (int64_t axis = 0; axis < std::ssize(shape); ++axis) {
      const TensorMatrix matrix(entry, axis);
      EXPECT_TRUE(matrix.is_boundless() && matrix.rows() == 0 && matrix.cols() == 0);
      for (const char* format : {"mxfp4", "nvfp4", "int8", "fp8_e4m3"})
        for (const int64_t size : matrix.scale_shape(operand_of(format))) EXPECT_GE(size, 0);
    }
  }
  const io::SafetensorsEntry few{
      .name = "x", .dtype = "F32", .shape = {3, 0}, .file = "f", .source = nullptr};
  EXPECT_EQ(TensorMatrix(few, -1).rows(), 3);
}

}  // namespace
}  // namespace ng
