// See columns.h.
#include "columns.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstring>
#include <limits>
#include <stdexcept>

#include "json.h"

namespace tailrace::native {

namespace {

// Mixes 8 bytes a step; the odd constant is 2^64 over the golden ratio. Only the distribution matters: equality is
// always checked.
uint64_t hash_of(std::string_view s) {
  constexpr uint64_t kMix = 0x9E3779B97F4A7C15ULL;
  uint64_t h = s.size() * kMix;
  size_t i = 0;
  for (; i + 8 <= s.size(); i += 8) {
    h = (h ^ load8(s.data() + i)) * kMix;
    h ^= h >> 29;
  }
  uint64_t tail = 0;
  if (i < s.size()) std::memcpy(&tail, s.data() + i, s.size() - i);
  h = (h ^ tail) * kMix;
  return h ^ (h >> 32);
}

// Columns are written once, from start to end, and most of their cost is the first touch of each page: large pages
// reduce it.
Buffer allocate(size_t bytes, int fill) {
  constexpr size_t kHugePage = size_t{2} << 20;
  void *p = nullptr;
  if (bytes < kHugePage) {
    p = std::malloc(bytes);
  } else if (posix_memalign(&p, kHugePage, bytes) == 0) {
    ::madvise(p, bytes, MADV_HUGEPAGE);
  } else {
    p = nullptr;
  }
  if (p == nullptr) throw std::bad_alloc();
  std::memset(p, fill, bytes);
  return Buffer(p);
}

size_t width_of(Type type) { return type == Type::kInt64 ? sizeof(int64_t) : sizeof(int32_t); }

}  // namespace

std::string_view Dictionary::at(int32_t i) const {
  const auto begin = static_cast<size_t>(offsets_[static_cast<size_t>(i)]);
  return {data_.data() + begin, static_cast<size_t>(offsets_[static_cast<size_t>(i) + 1]) - begin};
}

int32_t Dictionary::index_of(std::string_view text) {
  const size_t mask = slots_.size() - 1;
  size_t slot = hash_of(text) & mask;
  for (; slots_[slot] >= 0; slot = (slot + 1) & mask) {
    if (at(slots_[slot]) == text) return slots_[slot];
  }
  if (text.size() > static_cast<size_t>(std::numeric_limits<int32_t>::max()) - data_.size()) {
    throw std::length_error("the distinct strings of one column take more than 2 GiB; read fewer blocks at once");
  }
  const auto index = static_cast<int32_t>(size());
  data_.append(text);
  offsets_.push_back(static_cast<int32_t>(data_.size()));
  slots_[slot] = index;
  if (size() * 2 > slots_.size()) grow();
  return index;
}

void Dictionary::grow() {
  slots_.assign(slots_.size() * 2, -1);
  const size_t mask = slots_.size() - 1;
  for (int32_t i = 0; i < static_cast<int32_t>(size()); ++i) {
    size_t slot = hash_of(at(i)) & mask;
    while (slots_[slot] >= 0) slot = (slot + 1) & mask;
    slots_[slot] = i;
  }
}

Column::Column(std::string name, Type type, bool nullable, size_t capacity)
    : name_(std::move(name)), type_(type), nullable_(nullable), rows_(0) {
  grow(capacity);
}

void Column::grow(size_t capacity) {
  const size_t rows = capacity + 1, width = width_of(type_);
  if (rows <= rows_) return;
  Buffer values = allocate(rows * width, type_ == Type::kText ? 0xFF : 0);
  if (rows_ > 0) std::memcpy(values.get(), values_.get(), rows_ * width);
  if (type_ != Type::kText && nullable_) {
    Buffer valid = allocate(rows / 8 + 1, 0);
    if (rows_ > 0) std::memcpy(valid.get(), valid_.get(), rows_ / 8 + 1);
    valid_ = std::move(valid);
  }
  values_ = std::move(values);
  if (type_ == Type::kInt32 && fallback(name_) != 0) {
    std::fill_n(static_cast<int32_t *>(values_.get()) + rows_, rows - rows_, fallback(name_));
  }
  rows_ = rows;
}

void Column::copy(size_t from, size_t to) {
  if (type_ == Type::kText) {
    set_index(to, index_at(from));
  } else if (is_null_int(from)) {
    clear(to);
  } else {
    set_int(to, int_at(from));
  }
}

void Column::clear(size_t row) {
  if (type_ == Type::kText) {
    set_index(row, -1);
  } else if (valid_ != nullptr) {
    valid()[row >> 3] &= static_cast<uint8_t>(~(1U << (row & 7)));
  } else {
    set_int(row, fallback(name_));
  }
}

void Column::finish(size_t rows) {
  if (type_ == Type::kText) {
    const int32_t *index = indices();
    null_count_ = std::count_if(index, index + rows, [](int32_t i) { return i < 0; });
    if (null_count_ == 0) return;
    valid_ = allocate(rows / 8 + 1, 0);
    for (size_t row = 0; row < rows; ++row) {
      valid()[row >> 3] |= static_cast<uint8_t>((index[row] >= 0 ? 1U : 0U) << (row & 7));
    }
  } else if (valid_ != nullptr) {
    int64_t set = 0;
    for (size_t i = 0; i < rows / 8; ++i) set += __builtin_popcount(valid()[i]);
    if (rows % 8 != 0) set += __builtin_popcount(valid()[rows / 8] & ((1U << (rows % 8)) - 1));
    null_count_ = static_cast<int64_t>(rows) - set;
  }
}

}  // namespace tailrace::native
