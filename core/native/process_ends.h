// Matches processes with the waits that saw their ends. A wait names the child by its pid alone.
//
// A pid is reused, by later processes or in several pid namespaces at the same time. The waiter tells them apart: its
// pid is the child's parent pid, and the child began during the waiter's life. So is a child's that shared the waiter's
// memory. A process that outlived its parent was waited for by another process. As many waits as possible get a
// process, the likeliest one (a maximum matching for each pid of a host).
//
// A wait's status is the exit code of the process's `exit` event, or a signal's, which may end a process right after
// that event; or another code, by an exit that nothing saw (a sanitizer's, at the very end). In this order they are
// preferred, and the last two only of a wait of the parent's.
//
// Where there are more processes than waits, a process without an end that is followed by another process of its parent
// is an earlier part of that one: it changed its user and went on as a program that can't continue its trace file, or
// was followed from outside and executed one that is preloaded. The wait belongs to the last part. The first process of
// a pid namespace has another pid there, and 0 as its parent's: it is matched with a wait without a process, whose
// waiter's life contains it.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace tailrace::native {

// A traced process. Times in ns, 0: it recorded no call.
struct EndingProcess {
  std::string host;
  int64_t pid = 0;
  std::optional<int64_t> ppid;
  int64_t begin = 0, end = 0;
  bool has_exit = false;  // its `exit` event is there
  std::optional<int64_t> code;
};

// In the order of time, which is at or after the wait. waiter: a process's place; -1: a launcher that is not traced.
struct SeenEnd {
  int64_t waiter = -1;
  std::string host;
  int64_t pid = 0;
  int64_t status = 0;
  int64_t at = 0;
  int64_t kind = 0;  // what its process knew of the child (session/memory_sharers.h, ChildKind)
};

struct Ends {
  std::vector<int64_t> of;        // of each process the wait that saw its end; -1: it is not known
  std::vector<bool> went_on;      // of each process whether it went on as another one
  std::vector<size_t> unmatched;  // waits whose process left no trace
};

// `is_untraced(host, pid)`: that process is known to have started, and can't be traced.
Ends match_ends(const std::vector<EndingProcess> &processes, const std::vector<SeenEnd> &waits,
                const std::function<bool(const std::string &, int64_t)> &is_untraced);

}  // namespace tailrace::native
