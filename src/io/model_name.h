// What a user says to name a model.
#pragma once

#include <string>
#include <utility>

namespace ng::io {

struct ModelName {
  std::string path;
  /// Of a PEFT folder, in place of the base that its configuration names; empty: that.
  std::string base;

  // NOLINTNEXTLINE(google-explicit-constructor): most models are one path
  ModelName(std::string model, std::string base_of_adapters = "")
      : path(std::move(model)), base(std::move(base_of_adapters)) {}
};

}  // namespace ng::io
