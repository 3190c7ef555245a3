// A stand-in for the core with a fault in a hook, built with the same sanitizer and preloaded by the same launcher:
// what the tests with a sanitizer must notice (tests/integration/test_sanitizer.py). $PLANTED says which fault. Hooked
// are a function that the sanitizers' runtimes replace too, and one that they don't.
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

void tailrace_report_to(const char *path);  // the core's base/sanitizer.cc

namespace {

int g_calls;
volatile int g_sink;

__attribute__((constructor)) void choose_report_path() {
  if (const char *path = getenv("TAILRACE_SANITIZER_REPORTS")) tailrace_report_to(path);
}

__attribute__((noinline)) void commit_fault(const char *which) {
  volatile int n = 8;
  if (!strcmp(which, "race")) g_sink = ++g_calls;
  if (!strcmp(which, "heap")) {
    auto *block = new char[8];
    g_sink = const_cast<volatile char *>(block)[n];
    delete[] block;
  }
  if (!strcmp(which, "stack")) {
    volatile char local[8] = {};
    g_sink = local[n];
  }
  if (!strcmp(which, "undefined")) g_sink = 0x7FFFFFFF + n;
}

void plant(const char *hook) {
  const char *where = getenv("PLANTED_IN"), *which = getenv("PLANTED");
  if (where && which && !strcmp(where, hook)) commit_fault(which);
}

}  // namespace

#define HOOK extern "C" __attribute__((visibility("default")))

HOOK ssize_t write(int fd, const void *data, size_t n) {
  auto real = reinterpret_cast<ssize_t (*)(int, const void *, size_t)>(dlsym(RTLD_NEXT, "write"));
  plant("write");
  return real(fd, data, n);
}

HOOK int ftruncate(int fd, off_t n) noexcept {
  auto real = reinterpret_cast<int (*)(int, off_t)>(dlsym(RTLD_NEXT, "ftruncate"));
  plant("ftruncate");
  return real(fd, n);
}
