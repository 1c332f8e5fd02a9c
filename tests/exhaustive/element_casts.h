// What the cpu backend makes of single FP32 numbers, beside the scalar definition: for comparing
// the two on many inputs. Both give element codes of an operand without scale, the path that casts
// of files take.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "backend/cpu/workspace.h"
#include "format/codec.h"
#include "numbers/encoder.h"

namespace ng::exhaustive {

/// A format and what becomes of overflow, infinities and NaN.
struct ElementCast {
  const ElementFormat* format = nullptr;
  Overflow overflow = Overflow::saturate;

  /// Without scale.
  [[nodiscard]] Operand operand() const {
    Operand operand;
    operand.element = format;
    operand.overflow = overflow;
    return operand;
  }
  [[nodiscard]] std::string text() const {
    return std::string(format->short_name) +
           (overflow == Overflow::special ? " special" : " saturate");
  }
};

/// Every format of at most 8 bits under every overflow policy it has.
inline std::vector<ElementCast> casts_of(const ElementFormat& format) {
  std::vector<ElementCast> casts = {{&format, Overflow::saturate}};
  const bool has_specials =
      format.kind == ElementKind::floating && format.specials != Specials::none && format.bits == 8;
  if (has_specials) casts.push_back({&format, Overflow::special});
  return casts;
}

inline std::vector<const ElementFormat*> narrow_formats() {
  std::vector<const ElementFormat*> formats;
  for (const ElementFormat& format : element_formats())
    if (format.bits <= 8) formats.push_back(&format);
  return formats;
}

/// The codes of format/codec.h, nearest even.
inline void codes_by_definition(const ElementCast& cast, std::span<const float> x,
                                std::span<uint8_t> codes) {
  const OverflowRule rule = overflow_rule(cast.overflow);
  const ElementCodec codec(*cast.format);
  for (size_t i = 0; i < x.size(); ++i)
    codes[i] = static_cast<uint8_t>(codec.encode(x[i], {}, rule));
}

/// The cpu backend on one thread, on the instruction set in use. Numbers are a matrix of `cols`
/// columns; their count is the same at every call.
class CpuCaster {
 public:
  CpuCaster(const ElementCast& cast, int64_t rows, int64_t cols)
      : rows_(rows),
        cols_(cols),
        workspace_(Threads{1}),
        encoder_(workspace_, job(cast, rows, cols)) {}

  [[nodiscard]] const std::vector<uint16_t>& codes(std::span<const float> x) {
    encoder_.encode({0, rows_, 0, cols_}, {x.data(), rows_, cols_, cols_}, out_);
    return out_.codes;
  }

 private:
  static EncodeJob job(const ElementCast& cast, int64_t rows, int64_t cols) {
    EncodeJob job;
    job.cast = cast.operand();
    job.rows = rows;
    job.cols = cols;
    return job;
  }

  int64_t rows_, cols_;
  cpu::Workspace workspace_;
  NarrowEncoder encoder_;
  NarrowMatrix out_;
};

}  // namespace ng::exhaustive
