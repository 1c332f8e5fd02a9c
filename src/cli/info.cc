// narrowgauge info: what this build is and what it found.
#include "base/isa.h"
#include "base/json.h"
#include "base/version.h"
#include "cli/command.h"
#include "cli/output.h"
#include "recipe/recipe.h"
#include "run/backends.h"
#include "speed/machine.h"

namespace ng::cli {
namespace {

Json isas_json() {
  Json names = Json::array();
  for (const Isa isa : supported_isas()) names.push_back(name_of(isa));
  return names;
}

Json info_json() {
  const MachineMemory memory = machine_memory();
  const Threads all{available_cores()};
  Json json = {{"version", version()},
               {"compiler", compiler()},
               {"cpu", cpu_model()},
               {"cpu_features", cpu_features()},
               {"isas", isas_json()},
               {"isa", name_of(current_isa())},
               {"backends", backend_names()},
               {"threads", all.count},
               {"memory_bytes", memory.total},
               {"memory_available_bytes", memory.available},
               {"peak_flops", measured_peak_flops(all)},
               {"recipe_folders", recipe_folders()}};
  return json;
}

std::string joined(const Json& names) {
  std::string text;
  for (const Json& name : names) text += (text.empty() ? "" : " ") + name.get<std::string>();
  return text;
}

void print_info(const Json& info) {
  const auto line = [](const char* what, const std::string& value) {
    print("{:<16} {}\n", what, value);
  };
  const auto text = [&](const char* key) { return info[key].get<std::string>(); };
  const auto size = [&](const char* key) { return size_text(info[key].get<double>()); };
  line("version", text("version"));
  line("compiler", text("compiler"));
  line("cpu", text("cpu"));
  line("features", text("cpu_features"));
  line("instructions", joined(info["isas"]) + ", using " + text("isa"));
  line("backends", joined(info["backends"]));
  line("threads", json_text(info["threads"]));
  line("memory", size("memory_bytes") + ", available " + size("memory_available_bytes"));
  line("measured peak",
       fmt::format("{:.3g} GFLOP/s in FP32", info["peak_flops"].get<double>() / 1e9));
  line("recipes in", joined(info["recipe_folders"]));
}

std::function<int()> declare(Flags flags) {
  auto json = std::make_shared<bool>(false);
  flags.flag("--json", *json, "print one JSON object");
  return [json] {
    if (*json)
      print_json(info_json());
    else
      print_info(info_json());
    return 0;
  };
}

}  // namespace

extern const Command kInfo;
const Command kInfo{"info", "this build, the CPU features found and used, backends, memory",
                    declare};

}  // namespace ng::cli
