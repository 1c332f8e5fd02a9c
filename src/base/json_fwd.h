// The name of JSON values, for headers that only mention them: base/json.h takes a second to
// compile.
#pragma once

#include <nlohmann/json_fwd.hpp>

namespace ng {

using Json = nlohmann::json;

}  // namespace ng
