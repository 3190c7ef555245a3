// Calls of C++, compiled with -finstrument-functions: instrumented FILE. Its log is its output.
#include <atomic>
#include <functional>
#include <stdexcept>
#include <thread>
#include <vector>

#define atomic_int std::atomic<int>
#define _STDATOMIC_H
#define __CLANG_STDATOMIC_H
using std::atomic_fetch_add;
#include "call_log.h"

class Logged {
 public:
  UNSEEN explicit Logged(const char *name) { call_begins(name); }
  UNSEEN ~Logged() { call_ends(); }
};

namespace app {
namespace {

__attribute__((noinline)) void hidden() {
  Logged call("app::(anonymous namespace)::hidden");
  open_file();
}

}  // namespace

class Reader {
 public:
  __attribute__((noinline)) Reader() {
    Logged call("app::Reader::Reader");
    open_file();
  }
  __attribute__((noinline)) ~Reader() {
    Logged call("app::Reader::~Reader");
    open_file();
  }
  template <class T>
  __attribute__((noinline)) T next(T from, const std::vector<T> &) {
    Logged call("app::Reader::next");
    hidden();
    return from;
  }
  __attribute__((noinline)) Reader &operator+=(int) {
    Logged call("app::Reader::operator+=");
    open_file();
    return *this;
  }
};

__attribute__((noinline)) void throws(int levels) {
  Logged call("app::throws");
  Reader reader;
  if (levels) throws(levels - 1);
  throw std::runtime_error("as it should");
}

__attribute__((noinline)) void catches() {
  Logged call("app::catches");
  try {
    throws(2);
  } catch (const std::exception &) {
    open_file();
  }
  open_file();
}

__attribute__((noinline)) void works(int rounds) {
  Logged call("app::works");
  for (int i = 0; i < rounds; ++i) catches();
}

__attribute__((noinline)) void calls_back(const std::function<void()> &function) {
  Logged call("app::calls_back");
  function();
}

__attribute__((noinline)) void runs() {
  Logged call("app::runs");
  Reader reader;
  reader.next(1, {});
  reader.next(2.0, {});
  reader += 3;
  calls_back([] {
#ifdef __clang__
    Logged own("app::runs::$_0::operator()");
#else
    Logged own("app::runs::{lambda#1}::operator()");
#endif
    open_file();
  });
}

}  // namespace app

int main(int, char **words) {
  begin_log(words[1]);
  app::runs();
  open_file();
  app::catches();
  open_file();
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) threads.emplace_back(app::works, 5);
  for (std::thread &thread : threads) thread.join();
  print_log();
}
