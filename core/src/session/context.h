// Contexts of this process: interned tag sets. A context is never freed or changed, so a thread can hold a pointer to
// it.
#pragma once

#include <atomic>

#include "format/tags.h"

namespace tailrace {

struct Context {
  uint32_t id;
  std::atomic<uint32_t> finished;  // its task is over: who still carries it records as the root
  uint32_t tags_bytes;
  Context *next;  // all contexts, newest first
  char text[1];

  string_view tags() const { return {text, tags_bytes}; }
};

// Interns `tags` (canonical). A finished context of the same tags is not taken up again: a task tried again is a new
// context. Null when there is no memory. Call with the session's table lock held.
Context *intern_context(string_view tags);
Context *find_context(uint32_t id);

}  // namespace tailrace
