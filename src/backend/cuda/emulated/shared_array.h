// Shared memory of an emulated block, every access checked: against the array's end, against what
// nobody wrote, and against accesses of other threads that no barrier puts before it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

namespace ng::cuda::emulated {

/// One array. What the running thread does with an element is told first.
class SharedArray {
 public:
  SharedArray(const void* key, std::string name, size_t count, size_t element);

  /// As at the begin of a block: nobody wrote anything.
  void forget();
  [[nodiscard]] const void* key() const { return key_; }
  [[nodiscard]] size_t bytes() const { return bytes_.size(); }
  [[nodiscard]] size_t element() const { return element_; }

  [[nodiscard]] const std::byte* read(int64_t i) { return told(i, Kind::read); }
  [[nodiscard]] std::byte* write(int64_t i) { return told(i, Kind::write); }
  [[nodiscard]] std::byte* change_atomically(int64_t i) { return told(i, Kind::atomic); }

 private:
  enum class Kind : uint8_t { read, write, atomic };
  /// By whom and when; `time` counts a lane's __syncwarp, `barriers` the block's barriers.
  struct Access {
    int thread = -1;
    uint32_t barriers = 0;
    uint32_t time = 0;
    bool atomic = false;
  };
  struct Element {
    Access written;
    std::vector<Access> reads;  ///< since then
  };

  std::byte* told(int64_t i, Kind kind);
  static bool ordered(const Access& earlier);
  [[noreturn]] void race(int64_t i, const Access& earlier, const char* then, const char* now) const;

  const void* key_;
  std::string name_;
  size_t element_;
  std::vector<std::byte> bytes_;
  std::vector<Element> elements_;
};

template <class T>
class SharedElement;

/// Where an element lies: what atomics take.
template <class T>
struct SharedPlace {
  SharedArray* array;
  int64_t index;
  T& operator*() const { return *reinterpret_cast<T*>(array->change_atomically(index)); }
};

/// tile[i], to be read and written like one.
template <class T>
class SharedElement {
 public:
  SharedElement(SharedArray& array, int64_t index) : array_(array), index_(index) {}
  // NOLINTNEXTLINE(google-explicit-constructor): stands for the value
  operator T() const {
    T value;
    std::memcpy(&value, array_.read(index_), sizeof value);
    return value;
  }
  const SharedElement& operator=(const T& value) const {
    std::memcpy(array_.write(index_), &value, sizeof value);
    return *this;
  }
  SharedElement(const SharedElement&) = default;
  const SharedElement& operator=(const SharedElement& other) const {
    return *this = static_cast<T>(other);
  }
  SharedElement& operator=(const SharedElement& other) {
    std::as_const(*this) = static_cast<T>(other);
    return *this;
  }
  const SharedElement& operator+=(const T& value) const {
    return *this = static_cast<T>(static_cast<T>(*this) + value);
  }
  SharedPlace<T> operator&() const { return {&array_, index_}; }

 private:
  SharedArray& array_;
  int64_t index_;
};

/// What NG_SHARED declares.
template <class T>
class Shared {
  static_assert(std::is_trivially_copyable_v<T>);

 public:
  explicit Shared(SharedArray& array) : array_(array) {}
  SharedElement<T> operator[](int64_t i) const { return {array_, i}; }

 private:
  SharedArray& array_;
};

}  // namespace ng::cuda::emulated
