// Between the public types and those of the program.
#pragma once

#include <narrowgauge/error.h>
#include <narrowgauge/formats.h>
#include <narrowgauge/quantize.h>

#include "base/error.h"
#include "base/threads.h"
#include "numbers/narrow_matrix.h"

namespace narrowgauge {

/// What an Element stands for, and back.
struct ElementAccess {
  static const ng::ElementFormat& format_of(const Element& element) { return *element.format_; }
  static Element element_of(const ng::ElementFormat& format) { return Element(&format); }
};

/// Calls `body`; what it refuses becomes the public exception.
template <class Body>
auto translated(const Body& body) -> decltype(body()) {
  try {
    return body();
  } catch (const ng::Error& error) {
    throw Error(error.parts().problem, error.parts().remedy);
  }
}

/// Throws Error.
void require(bool condition, const std::string& problem, const std::string& remedy);

[[nodiscard]] ng::Threads threads_of(int count);
/// Of a cast by current scaling.
[[nodiscard]] Format format_of(const ng::Operand& operand);
[[nodiscard]] ng::Operand operand_of(const Format& format);
[[nodiscard]] ng::ScaleGrid grid_of(const Quantized& matrix);
[[nodiscard]] ng::Hadamard hadamard_of(const Hadamard& hadamard);
/// A copy of its numbers, without scale codes and counts.
[[nodiscard]] ng::NarrowMatrix narrow_matrix_of(const Quantized& matrix);
/// Throws Error where `scale` is none of its kind.
void check_scale(ScaleKind kind, float scale);
/// Throws Error where sizes or scale codes disagree, a code is none of the element or a scale none
/// of its kind.
void check_parts(const Quantized& matrix);

}  // namespace narrowgauge
