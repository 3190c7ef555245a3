// Numbers distinct keys in the order of their first use: a hash table with open addressing.
#pragma once

#include <cstdint>
#include <vector>

namespace tailrace::native {

// Mixes 64 bits so that each one changes the low ones; equality is always checked.
inline uint64_t mixed(uint64_t h) {
  h *= 0x9E3779B97F4A7C15ULL;  // 2^64 over the golden ratio, odd
  return h ^ (h >> 32);
}

// Key has == and hash(). At most 2^32 - 1 keys.
template <typename Key>
class Numbering {
 public:
  uint32_t number(const Key &key) {
    size_t slot = key.hash() & mask_;
    for (; slots_[slot] != kFree; slot = (slot + 1) & mask_) {
      if (keys_[slots_[slot]] == key) return slots_[slot];
    }
    const auto made = static_cast<uint32_t>(keys_.size());
    keys_.push_back(key);
    slots_[slot] = made;
    if (keys_.size() * 2 > slots_.size()) grow();
    return made;
  }

  size_t size() const { return keys_.size(); }
  const Key &operator[](size_t number) const { return keys_[number]; }

 private:
  static constexpr uint32_t kFree = UINT32_MAX;

  void grow() {
    slots_.assign(slots_.size() * 2, kFree);
    mask_ = slots_.size() - 1;
    for (uint32_t number = 0; number < keys_.size(); ++number) {
      size_t slot = keys_[number].hash() & mask_;
      while (slots_[slot] != kFree) slot = (slot + 1) & mask_;
      slots_[slot] = number;
    }
  }

  std::vector<Key> keys_;
  std::vector<uint32_t> slots_ = std::vector<uint32_t>(64, kFree);
  size_t mask_ = 63;
};

}  // namespace tailrace::native
