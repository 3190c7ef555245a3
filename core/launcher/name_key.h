// The key by which a run's names are hashed (format/name_hashing.h), where TAILRACE_REDACT is `paths`: that of the
// surrounding run, or of the file that TAILRACE_REDACT_KEY names, or a random one.
//
// Invariant: once chosen, the key is in TAILRACE_NAME_KEY of this process, with the settings that traced processes get.
// It is in no file of a run.
#pragma once

#include <string>

#include "format/name_hashing.h"

namespace tailrace::launcher {

// What `write(Writer &)` makes of a text of so many bytes, each of which may be a part that becomes a hash.
template <class F>
std::string hashed_text(size_t bytes, F write) {
  std::string room(bytes * 32 + 256, '\0');
  Writer w(room.data(), room.size());
  write(w);
  room.resize(w.size());
  return room;
}

// Off where names are not hashed. Throws Fault where the key's file can't be used.
const NameHasher &name_hasher();
// The key in a file. Throws Fault.
std::string key_in_file(const std::string &path);
// As a run has it; empty for a hasher that is off.
std::string fingerprint_of(const NameHasher &hasher);

// Whether the path is that of an existing file of the machine, without links before its last part.
bool is_machine_file(const std::string &path);

// What a run has of a path, of tags (canonical). `exists`: as for NameHasher::write_path().
std::string recorded_path(const NameHasher &hasher, const std::string &path, bool exists);
std::string recorded_tags(const NameHasher &hasher, const std::string &tags);

}  // namespace tailrace::launcher
