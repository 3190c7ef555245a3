// Any unexpected result of a call ends the program with its line's number. Without stdio: programs that no preload enters
// are to make no other calls.
#pragma once

#include <unistd.h>

#define CHECK(condition)                         \
  do {                                           \
    if (!(condition)) _exit(__LINE__ % 251 + 1); \
  } while (0)
