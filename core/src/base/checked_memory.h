// Reads memory of this process that may not be there: the kernel copies it, and refuses what can't be read.
//
// Invariant: no address makes a read fail in any other way than by a null pointer.
#pragma once

#include <string.h>
#include <sys/uio.h>

#include "base/sys.h"

namespace tailrace {

// How many of the bytes at `from` could be copied, those at the begin; below 0: none.
inline long copy_memory(int pid, uintptr_t from, void *to, size_t bytes) {
  struct iovec here = {to, bytes}, there = {reinterpret_cast<void *>(from), bytes};
  return sys::call(SYS_process_vm_readv, pid, sys::pointer(&here), 1, sys::pointer(&there), 1, 0);
}

// Whether the kernel has found nothing there. It may also refuse to look (a filter, an emulator): then it is not known.
inline bool is_missing(long copied) { return copied == -14 || copied == 0; }  // -EFAULT

// A part of memory, copied when it is looked at. What is near a place that was looked at costs no system call.
template <size_t kBytes>
class MemoryWindow {
 public:
  void open(int pid) {
    pid_ = pid;
    begin_ = end_ = 0;
  }
  // `bytes` bytes at `address`, valid until the next call; null: they can't be read. `behind`: the next ones will be at
  // lower addresses.
  const char *at(uintptr_t address, size_t bytes, bool behind = false) {
    if (bytes > kBytes || address > UINTPTR_MAX - kBytes) return nullptr;
    if (address >= begin_ && address + bytes <= end_) return room_ + (address - begin_);
    const size_t before = behind && address > kBytes ? kBytes - bytes : 0;
    if (before && fill(address - before) && address + bytes <= end_) return room_ + before;
    return fill(address) && address + bytes <= end_ ? room_ : nullptr;
  }
  template <class T>
  bool read(uintptr_t address, T &out, bool behind = false) {
    const char *p = at(address, sizeof out, behind);
    if (p) memcpy(&out, p, sizeof out);
    return p != nullptr;
  }

 private:
  bool fill(uintptr_t address) {
    const long n = copy_memory(pid_, address, room_, kBytes);
    begin_ = address;
    end_ = address + (n > 0 ? static_cast<size_t>(n) : 0);
    return n > 0;
  }

  int pid_;
  uintptr_t begin_, end_;
  char room_[kBytes];
};

}  // namespace tailrace
