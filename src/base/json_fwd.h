// The names of JSON values and objects, for headers that only mention them: base/json.h takes a
// second to compile.
#pragma once

#include <nlohmann/json_fwd.hpp>

namespace ng {

using Json = nlohmann::json;
/// Keys stay in the order in which they came; finding one takes time by their number.
using OrderedJson = nlohmann::ordered_json;

class JsonObject;

}  // namespace ng
