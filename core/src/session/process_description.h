// What the start event tells about the process: ppid, exe, cwd, world_size, uid, cpus, cgroup, argv.
#pragma once

namespace tailrace {

// Writes the args of the start event to g_session.process_members. Returns the bytes that were read.
long describe_process(char **argv);

}  // namespace tailrace
