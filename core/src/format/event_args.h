// A record's fields as the args of its line, by the shape of its function (format/functions.h; docs/trace-format.md,
// "Event lines").
#pragma once

#include "format/functions.h"
#include "format/journal.h"
#include "format/program.h"

namespace tailrace {

// Appends `name` (a literal, with its comma, quotes and colon) and the value.
template <size_t N>
inline char *put_field(char *p, const char (&name)[N], int64_t value) {
  memcpy(p, name, N - 1);
  return put_signed(p + N - 1, value);
}

// The slot's second file, or 0: some shapes keep another value in its place.
uint64_t second_file(const Slot &slot, const Function &f);

// Bytes that the call moved.
int64_t moved_bytes(const Slot &slot, const Function &f);

// An Obstacle as a slot keeps it; a journal may hold anything.
Obstacle obstacle_in(uint64_t field);

// All args but those of `start` and `exit`, which are the process's and not the call's.
char *put_event_args(char *p, const Slot &slot, const Function &f, int64_t size);

}  // namespace tailrace
