// Files of tensors that a test names one by one.
#pragma once

#include <deque>
#include <string>
#include <vector>

#include "io/safetensors.h"
#include "support/scratch_folder.h"

namespace ng {

class TensorFiles : public ScratchFolder {
 protected:
  void SetUp() override {
    ScratchFolder::SetUp();
    make_folders(folder_);
  }
  void take(const std::string& name, std::vector<int64_t> shape, std::vector<float> values) {
    values_.push_back(std::move(values));
    tensors_.push_back({name, "F32", std::move(shape), values_.back().data()});
  }
  /// What was taken goes into a file, and is forgotten.
  void write_taken(const std::string& path) {
    io::write_safetensors(path, tensors_);
    tensors_.clear();
    values_.clear();
  }

 private:
  std::deque<std::vector<float>> values_;
  std::vector<io::SafetensorsTensor> tensors_;
};

}  // namespace ng
