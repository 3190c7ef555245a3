// See format/unmapped_journals.h.
#include "format/unmapped_journals.h"

#include <string.h>

#include "base/own_memory.h"

namespace tailrace {

UnmappedJournals::~UnmappedJournals() {
  if (items_) own_memory::release(items_, kMost * sizeof(Item));
}

bool UnmappedJournals::add(string_view name, const FirstLook &first) {
  if (!items_) items_ = static_cast<Item *>(own_memory::pages(kMost * sizeof(Item)));
  if (!items_ || is_full() || name.size() >= sizeof items_->name) return false;
  Item &item = items_[count_++];
  item.first = first;
  memcpy(item.name, name.data(), name.size());
  item.name[name.size()] = 0;
  return true;
}

}  // namespace tailrace
