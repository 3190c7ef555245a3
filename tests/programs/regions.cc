// Regions by the header alone (tests/integration/test_regions.py): regions MODE FILE
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <stdexcept>

#include "tailrace/region.hpp"

static const char *file;

static void touch() {
  int fd = open(file, O_RDONLY);
  char byte;
  if (fd < 0 || read(fd, &byte, 1) != 1) _exit(3);
  close(fd);
}

static void throws() {
  TAILRACE_REGION("throws", "");
  touch();
  throw std::runtime_error("");
}

static int recursive(int depth) {
  TAILRACE_FUNCTION();
  return depth == 0 ? 0 : 1 + recursive(depth - 1);
}

static void *thread(void *) {
  TAILRACE_REGION("thread", "io");
  touch();
  return nullptr;
}

static void nested() {
  TAILRACE_REGION("outer", "compute");
  for (int step = 0; step < 3; ++step) {
    tailrace::region_with region("in step", "io", tailrace::keys().epoch(7).step(step).add("model", "u net"));
    touch();
    region.update().add("loss", 5);
  }
  try {
    throws();
  } catch (const std::runtime_error &) {
  }
  recursive(3);
  pthread_t other;
  pthread_create(&other, nullptr, thread, nullptr);
  pthread_join(other, nullptr);
  if (fork() == 0) {
    {
      TAILRACE_REGION("child", "");
      touch();
    }
    execlp("head", "head", "-c1", file, static_cast<char *>(nullptr));
    _exit(4);
  }
  int status;
  wait(&status);
  static tailrace_site hello = TAILRACE_SITE("hello", ""), load = TAILRACE_SITE("load", "cpu");
  tailrace_instant(&hello, "a=b");
  tailrace_counter(&load, 0.25);
  tailrace_counter(&load, -3);
}

// Longer than a segment, and below it many short ones.
static void long_one() {
  TAILRACE_REGION("long", "");
  for (int i = 0; i < 6000; ++i) {
    TAILRACE_REGION("short", "");
    if (i % 10 == 0) touch();
  }
}

int main(int, char **argv) {
  file = argv[2];
  if (strcmp(argv[1], "nested") == 0) nested();
  if (strcmp(argv[1], "long") == 0) long_one();
  if (strcmp(argv[1], "killed") == 0) {
    TAILRACE_REGION("killed", "");
    long_one();
    TAILRACE_REGION("inner", "");
    touch();
    kill(getpid(), SIGKILL);
  }
  touch();
  return 0;
}
