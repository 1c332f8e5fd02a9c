// What a program does with the library: quantize a matrix, look at codes, scales and the error,
// multiply two of them.
#include <narrowgauge/dot.h>
#include <narrowgauge/error.h>
#include <narrowgauge/formats.h>
#include <narrowgauge/packing.h>
#include <narrowgauge/quantize.h>
#include <narrowgauge/version.h>

#include <cstdint>
#include <cstdio>
#include <random>
#include <string>
#include <vector>

namespace ngl = narrowgauge;

// One block: codes, bytes and values.
void show_block() {
  std::vector<float> x = {7, -2.5f, 0.3f, 0.75f, -5, 0.2f, 1.25f, -0.1f};
  const ngl::Quantized q = ngl::quantize({x.data(), 1, 8, 8}, ngl::format("mxfp4"));
  std::printf("scale 2^%d codes", q.scale_codes[0] - 127);
  for (const uint16_t code : q.codes) std::printf(" %X", code);
  std::printf("\nbytes");
  for (const uint8_t byte : ngl::pack_codes(q.codes, 4)) std::printf(" %02X", byte);
  std::printf("\nvalues");
  for (const float value : ngl::dequantize(q)) std::printf(" %g", static_cast<double>(value));
  std::printf("\n");
}

// How far each format is from normally distributed numbers.
void compare_formats(const std::vector<float>& x, int64_t rows, int64_t cols) {
  const ngl::MatrixView view = {x.data(), rows, cols, cols};
  for (const char* name : {"mxfp4", "nvfp4", "mxfp6_e2m3", "mxfp8_e4m3", "fp8_e4m3", "int8"}) {
    const ngl::Format format = ngl::format(name);
    const std::vector<float> y = ngl::dequantize(ngl::quantize(view, format, {.threads = 2}));
    const ngl::ErrorMetrics error = ngl::error_metrics(view, {y.data(), rows, cols, cols});
    std::printf("%-11s %5.2f bits  SQNR %5.2f dB\n", name, ngl::bits_per_value(format),
                error.sqnr_db);
  }
}

// y = Q(a) · Q(b)^T in MXFP4 with stochastic rounding.
void multiply(const std::vector<float>& x, int64_t cols) {
  ngl::Format format = ngl::format("mxfp4");
  format.rounding = ngl::Rounding::stochastic;
  const ngl::Quantized a = ngl::quantize({x.data(), 3, cols, cols}, format, {.seed = 1});
  const ngl::Quantized b = ngl::quantize({x.data(), 2, cols, cols}, format, {.seed = 2});
  const std::vector<float> y = ngl::multiply(a, b);
  std::printf("y[0][0] %g, the sum of squares of the first row is about %lld\n",
              static_cast<double>(y[0]), static_cast<long long>(cols));
}

int main() {
  std::printf("NarrowGauge %s\n", std::string(ngl::version()).c_str());
  show_block();
  const int64_t rows = 64, cols = 1024;
  std::mt19937 random(1);
  std::normal_distribution<float> normal;
  std::vector<float> x(static_cast<size_t>(rows * cols));
  for (float& value : x) value = normal(random);
  compare_formats(x, rows, cols);
  multiply(x, cols);
  try {
    (void)ngl::format("mxfp5");
  } catch (const ngl::Error& error) {
    std::printf("refused: %s\n", error.what());
    return 0;
  }
  return 1;
}
