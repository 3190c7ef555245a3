// The contexts of this process: interned sets of tags. A context is never freed and its tags never change, so that a
// thread can keep a pointer to it.
#pragma once

#include <atomic>

#include "format/name_hashing.h"
#include "format/tags.h"

namespace tailrace {

struct Context {
  uint32_t id;
  std::atomic<uint32_t> finished;  // its task is over: threads that still have it record as the root
  std::atomic<uint32_t> entered;   // a thread has said that it begins
  uint32_t tags_bytes;
  Context *next;  // in its bucket, newest first
  Context *base;  // without the regions that this process has begun: the context itself, where it is none's
  std::atomic<struct RegionInContext *> regions;  // those that were begun in it (session/region.h), newest first
  string_view recorded;                           // the tags as the run has them (recorded_form)
  char text[1];

  string_view tags() const { return {text, tags_bytes}; }
};

// Contexts that are interned from now on are recorded with hashed tags.
void hash_recorded_tags(const NameHasher *hasher);

// Interns `tags` (canonical). A finished context with the same tags is not used again: another try of a task is a new
// context. `base`: of a region's; null: itself. Null without memory. Call with the session's table lock held.
Context *intern_context(string_view tags, Context *base = nullptr);
Context *find_context(uint32_t id);
// Ends the context, and those of the regions in it. Call with the table lock held.
void finish_context(Context *context);

}  // namespace tailrace
