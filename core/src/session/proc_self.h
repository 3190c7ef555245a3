// What /proc says of this process: its threads and its mappings.
#pragma once

#include <stdint.h>

#include <type_traits>

namespace tailrace {

// Calls visit(tid) for each thread but the caller until it returns false. False: it did, or /proc can't be read, or is
// another pid namespace's.
bool visit_other_threads(bool (*visit)(void *, int), void *argument);
// Calls visit(begin, end) for each mapping, by address, until it returns false. False: /proc can't be read.
bool visit_mappings(bool (*visit)(void *, uintptr_t, uintptr_t), void *argument);

template <class Visit>
bool each_other_thread(Visit &&visit) {
  using Visitor = std::remove_reference_t<Visit>;
  return visit_other_threads([](void *raw, int tid) { return (*static_cast<Visitor *>(raw))(tid); }, &visit);
}

template <class Visit>
bool each_mapping(Visit &&visit) {
  using Visitor = std::remove_reference_t<Visit>;
  return visit_mappings(
      [](void *raw, uintptr_t begin, uintptr_t end) { return (*static_cast<Visitor *>(raw))(begin, end); }, &visit);
}

}  // namespace tailrace
