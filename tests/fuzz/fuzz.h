// What the fuzz targets share: checks that end the program, and files that exist in memory alone.
#pragma once

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include <string>

namespace tailrace::fuzz {

// A violated invariant is a crash, so that libFuzzer keeps the input.
inline void require(bool holds, const char *what) {
  if (holds) return;
  fprintf(stderr, "broken: %s\n", what);
  abort();
}

// Frees what the core allocated from its arena (memory.cc).
void forget_arena();

class MemoryFile {
 public:
  MemoryFile(const uint8_t *data, size_t bytes) : fd_(memfd_create("fuzz", 0)) {
    require(fd_ >= 0 && write(fd_, data, bytes) == static_cast<ssize_t>(bytes), "a file in memory can be made");
  }
  ~MemoryFile() { close(fd_); }
  MemoryFile(const MemoryFile &) = delete;
  MemoryFile &operator=(const MemoryFile &) = delete;

  int fd() const { return fd_; }
  std::string path() const { return "/proc/self/fd/" + std::to_string(fd_); }

 private:
  int fd_;
};

}  // namespace tailrace::fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
