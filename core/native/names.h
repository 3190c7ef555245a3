// The names of one block: its metadata lines (FH, HH, ST), by the hashes in its events.
//
// Invariants: entries point into the block's text and are dropped with it. An entry is put into a column's dictionary
// only when an event uses it, so dictionaries contain no unused names.
#pragma once

#include <cstdint>
#include <cstring>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "columns.h"
#include "json.h"
#include "mounts.h"

namespace tailrace::native {

// A hash as it is in the line: at most 16 bytes, compared as they are.
struct HashKey {
  uint64_t low = 0, high = 0;

  static HashKey of(std::string_view text) {
    if (text.size() > 16) throw JsonError("a hash is longer than 16 characters");
    HashKey key;
    char bytes[16] = {};
    std::memcpy(bytes, text.data(), text.size());
    std::memcpy(&key.low, bytes, 8);
    std::memcpy(&key.high, bytes + 8, 8);
    return key;
  }
  bool operator==(const HashKey &other) const { return low == other.low && high == other.high; }
};

struct FileName {
  HashKey key;
  Value name, type, dev, ino, btime;
  int64_t block_bytes = 0;  // 0: not known
  // Indices in the columns path, path2, file, file2, ftype; kUnused until an event needs one.
  static constexpr int32_t kUnused = -2;
  int32_t index[5] = {kUnused, kUnused, kUnused, kUnused, kUnused};
  // Where the last line of the block with an offset and a size on this file ended.
  bool has_end = false;
  int64_t end = 0;
};

// An open-addressing table from hash to entry; a hash defined twice keeps the last definition.
class FileTable {
 public:
  FileTable() : slots_(256, -1) {}

  void clear() {
    files_.clear();
    slots_.assign(slots_.size(), -1);
  }

  void put(const FileName &file) {
    int32_t &slot = slots_[slot_of(file.key)];
    if (slot >= 0) {
      files_[static_cast<size_t>(slot)] = file;
      return;
    }
    slot = static_cast<int32_t>(files_.size());
    files_.push_back(file);
    if (files_.size() * 2 > slots_.size()) grow();
  }

  FileName *find(const HashKey &key) {
    const int32_t slot = slots_[slot_of(key)];
    return slot < 0 ? nullptr : &files_[static_cast<size_t>(slot)];
  }

 private:
  size_t slot_of(const HashKey &key) const {
    uint64_t h = (key.low ^ (key.high << 1) ^ (key.high >> 7)) * 0x9E3779B97F4A7C15ULL;
    const size_t mask = slots_.size() - 1;
    size_t slot = (h ^ (h >> 32)) & mask;
    while (slots_[slot] >= 0 && !(files_[static_cast<size_t>(slots_[slot])].key == key)) slot = (slot + 1) & mask;
    return slot;
  }

  void grow() {
    slots_.assign(slots_.size() * 2, -1);
    for (size_t i = 0; i < files_.size(); ++i) slots_[slot_of(files_[i].key)] = static_cast<int32_t>(i);
  }

  std::vector<FileName> files_;
  std::vector<int32_t> slots_;
};

// The names of the block that is being read, and their texts in the columns.
class BlockNames {
 public:
  explicit BlockNames(const Mounts &mounts) : mounts_(mounts) {}

  // The columns that are wanted: host; path, path2, file, file2, ftype; blksize; stack; null is not wanted.
  void use_columns(Column *host, Column *const (&files)[5], Column *block, Column *stack);

  void begin_block(const std::string &host);
  // A metadata line's args; `kind` is FH, HH or ST. Throws JsonError when it lacks its name or hash.
  void put(const std::string &kind, const Value &args);

  // Grows whenever a name is added or removed: earlier look-ups are then void.
  uint64_t epoch() const { return epoch_; }

  FileName *file(const HashKey &key) { return files_.find(key); }
  // Writes the file's texts into the wanted columns of a row; null writes nothing.
  void set_file(FileName *file, bool second, size_t row);
  // Indices in the host column: of a host's hash, and of the block's own.
  int32_t host_of(const HashKey &key);
  int32_t own_host();
  // The index in the stack column of a stack's hash; -1: the block does not have it.
  int32_t stack_of(const HashKey &key);

 private:
  int32_t text_for(const FileName &file, size_t which, Column *column);
  std::optional<std::string> identity_of(const FileName &file, const std::string &type);

  const Mounts &mounts_;
  Column *host_column_ = nullptr;
  Column *file_columns_[5] = {};
  Column *block_column_ = nullptr;
  Column *stack_column_ = nullptr;
  uint64_t epoch_ = 0;
  FileTable files_, hosts_, stacks_;
  std::string host_;
  int32_t host_index_ = FileName::kUnused;
  std::string scratch_;
};

}  // namespace tailrace::native
