// "key=value" of a command line.
#pragma once

#include <string>

#include "base/toml.h"

namespace ng {

/// What errors call a setting: "--set train.steps=50".
[[nodiscard]] std::string setting_place(const std::string& setting);

/// "train.steps=50" as a document of its own, whose place is setting_place(). A value that
/// is no TOML is taken as a string. Throws Error where it is no setting.
[[nodiscard]] toml::table parse_setting(const std::string& setting);

}  // namespace ng
