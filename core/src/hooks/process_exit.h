// The end of a process by exit(3) or a return from main; hooks/process_exit.cc has every step of it.
#pragma once

namespace tailrace {

// Registers the last exit handler. To be called once, before the dynamic linker registers the libraries' destructors:
// exit(3) runs first what was registered last.
void handle_exit();

}  // namespace tailrace
