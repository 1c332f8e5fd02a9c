// What a failure of any kind is called in one line.
#pragma once

#include <exception>
#include <string>
#include <string_view>

namespace ng {

/// What is said where memory could not be had.
inline constexpr std::string_view kNoMemory =
    "memory: there is not enough: more of it, or less to do: model, batch, context, threads";

/// What there is to say of a failure: the line of an Error, that memory is short, or that the
/// program is to blame.
[[nodiscard]] std::string failure_text(const std::exception& failure);

}  // namespace ng
