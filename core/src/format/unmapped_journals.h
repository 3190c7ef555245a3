// Journals of one directory that were unmapped at a first look (format/journal_use.h), so that the second look at all
// of them takes one pause.
// Rejected: to keep the files open between the looks, a descriptor for each.
#pragma once

#include "format/journal_use.h"

namespace tailrace {

class UnmappedJournals {
 public:
  // A directory may have any number of files; so many wait for one pause.
  static constexpr size_t kMost = 1024;
  struct Item {
    FirstLook first;
    char name[256];
  };

  UnmappedJournals() = default;
  ~UnmappedJournals();
  UnmappedJournals(const UnmappedJournals &) = delete;
  UnmappedJournals &operator=(const UnmappedJournals &) = delete;

  bool is_empty() const { return count_ == 0; }
  bool is_full() const { return count_ == kMost; }
  // False where it is full or there is no memory, which it takes with the first one only.
  bool add(string_view name, const FirstLook &first);
  // When the last of them was looked at first.
  uint64_t last_look_ns() const { return count_ ? items_[count_ - 1].first.at_ns : 0; }
  void clear() { count_ = 0; }

  Item *begin() { return items_; }
  Item *end() { return items_ + count_; }

 private:
  Item *items_ = nullptr;
  size_t count_ = 0;
};

}  // namespace tailrace
