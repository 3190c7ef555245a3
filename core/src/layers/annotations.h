// Ranges of annotation libraries as regions (TAILRACE_ANNOTATIONS, docs/regions.md): NVTX and ITT, by the interface
// that each has for tools. A variable of the environment names a library, which the program's own copy of NVTX or ITT
// opens at its first range; here it names this one.
//
//   constructor      sets the variables that are wanted and not set: who set one himself uses another tool
//   nvtx.cc, itt.cc  fill the tables of functions of the program's copy
//   here             ranges: pushed and popped by thread, or started and ended by number
//
// Invariants:
// - Nothing is changed unless the setting asks for it. In an untraced process this library refuses, and a range costs
// what
//   it does without a tool.
// - A pop or an end without its begin does nothing. A range that is never ended is an open region.
// - The structures of both interfaces are declared from their documentation: only what is used of them, in their order.
#pragma once

#include "session/region.h"

namespace tailrace {

// Where the dynamic linker may be called.
void find_annotations();

// A text of the program: name or category; wide ones become UTF-8, cut at the room.
class AnnotationText {
 public:
  AnnotationText(const char *text) : view_(text ? string_view(text) : string_view()) {}
  AnnotationText(const wchar_t *text);
  AnnotationText(const AnnotationText &) = delete;
  AnnotationText &operator=(const AnnotationText &) = delete;
  string_view view() const { return view_; }

 private:
  char wide_[kMostRegionNameBytes + 4];
  string_view view_;
};

// A copy that is never freed; empty without memory.
string_view kept_text(string_view text);
void *kept_memory(size_t bytes);

// Of the thread. `of`: whose ranges nest in one another (a domain). The level, from 0 on; negative without one.
int push_range(const void *of, const RegionDefinition *definition, const RegionKeys &keys);
int pop_range(const void *of);

// Of the process: no thread is in it. `of` and `number` find it again; number 0: it gets one, which is returned, or 0.
uint64_t start_range(const void *of, uint64_t number, const RegionDefinition *definition, const RegionKeys &keys);
void end_range(const void *of, uint64_t number);

}  // namespace tailrace
