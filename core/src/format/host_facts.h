// What is known of this host: its name, its start, its mounts, its accounts of time. Whoever writes one of them into a
// run reads it here: processes and sealers, the launcher, and Flux's shell.
#pragma once

#include <sys/utsname.h>

#include "base/clock.h"
#include "base/text.h"

namespace tailrace {

// The name (uname(2)), which gethostname(3) gives, too.
class HostName {
 public:
  HostName() {
    if (uname(&names_) != 0) names_.nodename[0] = 0;
  }
  const char *c_str() const { return names_.nodename; }
  string_view view() const { return names_.nodename; }

 private:
  utsname names_;
};

// The running kernel's id (random(4)), equal in all of its containers: what only this node's own processes may share is
// named by it, on a file system that other nodes have, too. False without /proc. `bytes_read` grows by what was read.
bool write_boot_id(Writer &out, int64_t &bytes_read);

// A line of mountinfo (proc(5)), with blanks and the like in names as they are.
struct MountLine {
  string_view dev, source, root, point, fstype;
};
// Parses a line in its place. False: it has another form.
bool parse_mount(char *line, size_t n, MountLine &out);

// {"schedstat": true, "record_ns": 35}: whether this kernel tells how long threads were ready and waited for a
// processor, and what one record costs a traced process here, measured in some 10 us. `bytes_read` grows by what was
// read.
void write_time_facts(Writer &out, ClockKind kind, int64_t &bytes_read);

}  // namespace tailrace
