// An array that grows and becomes a numpy array: for columns of results whose length is not known before.
//
// Reserved memory that was never written takes no pages, and is freed before numpy gets the rest; std::vector would
// keep it. So callers reserve the largest possible size.
//
// No large pages: MADV_HUGEPAGE saved the fold no user time, and cost up to 1.2 s of system time in a virtual machine.
#pragma once

#include <cstddef>
#include <cstdlib>
#include <new>
#include <type_traits>
#include <utility>

namespace tailrace::native {

template <typename T>
class Growing {
  static_assert(std::is_trivially_copyable_v<T>);

 public:
  Growing() = default;
  ~Growing() { std::free(data_); }
  Growing(Growing &&other) noexcept
      : data_(std::exchange(other.data_, nullptr)),
        size_(std::exchange(other.size_, 0)),
        capacity_(std::exchange(other.capacity_, 0)) {}
  Growing &operator=(Growing &&other) noexcept {
    std::swap(data_, other.data_);
    std::swap(size_, other.size_);
    std::swap(capacity_, other.capacity_);
    return *this;
  }

  void reserve(size_t capacity) {
    if (capacity > capacity_) resize(capacity);
  }

  void push_back(T value) {
    if (size_ == capacity_) resize(capacity_ < 16 ? 32 : capacity_ * 2);
    data_[size_++] = value;
  }

  size_t size() const { return size_; }
  const T *data() const { return data_; }
  T &operator[](size_t i) { return data_[i]; }
  const T &operator[](size_t i) const { return data_[i]; }

  // The memory, shrunk to its used part; the caller frees it with std::free. Never null.
  T *release() {
    resize(size_ > 0 ? size_ : 1);
    size_ = capacity_ = 0;
    return std::exchange(data_, nullptr);
  }

 private:
  void resize(size_t capacity) {
    void *moved = std::realloc(data_, capacity * sizeof(T));
    if (moved == nullptr) throw std::bad_alloc();
    data_ = static_cast<T *>(moved);
    capacity_ = capacity;
  }

  T *data_ = nullptr;
  size_t size_ = 0;
  size_t capacity_ = 0;
};

}  // namespace tailrace::native
