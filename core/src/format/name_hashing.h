// Names by a keyed hash (TAILRACE_REDACT=paths): what a run has of paths, arguments, tags and names of objects and
// regions then is "@" and 16 hex digits in the place of each part between slashes, SipHash-2-4 of the part (Aumasson
// and Bernstein, 2012) under a key that the run does not have. Directories still group, and one name has one hash
// wherever it stands.
//
// Invariants: nothing here allocates or keeps a state, so that a hook may call it. The output has at most the room that
// `out` has: the rest of a text for which it is too small becomes one part. Of a text nothing is written as it is but
// what format/known_names.def lists, what TAILRACE_REDACT_KEEP matches, numbers of the kernel, and addresses of
// sockets.
//
// Names are hashed where they leave the process: in name records, contexts and the process's description, once an
// epoch. So journals have none, and whoever seals them needs no key. Memory has the program's names, which patterns and
// children need. `fhash` is hashed, too: FNV of a supposed path could be compared with it. A first open costs 1.4 us
// more.
// Rejected: hashing by the sealer, which leaves names in journals; encryption, which makes a run as secret as its key;
// one hash of the whole path, which groups nothing; rules for what looks like a name.
#pragma once

#include "base/text.h"
#include "format/journal.h"

namespace tailrace {

struct SipKey {
  uint64_t low = 0, high = 0;
};
uint64_t siphash(const SipKey &key, string_view text);

constexpr size_t kNameKeyDigits = 32;

class NameHasher {
 public:
  // Writes a part of the output, as it is or escaped.
  using Put = void (*)(Writer &out, string_view part);

  // key: 32 hex digits; kept: patterns of parts that stay as they are, separated by colons, alive as long as this is.
  // False where that is no key.
  bool set_key(string_view key, string_view kept);
  bool is_on() const { return is_on_; }

  // A path; as it is while the hasher is off, and where it is that of an existing file, which the caller has looked at
  // without links, and is_public().
  void write_path(Writer &out, string_view path, bool exists, Put put = put_plain) const;
  // A mount's source, root or point. Sources without a slash are names of file systems: tmpfs.
  void write_mount(Writer &out, string_view path, bool is_of_this_host, Put put = put_plain) const;
  // The name of a file of any type, as a name record has it.
  void write_file(Writer &out, string_view name, FileType type, Put put = put_plain) const;
  // An argument of a command line behind the program's name: as a path, but for options.
  void write_argument(Writer &out, string_view argument, Put put = put_plain) const;
  // Tags in the canonical form, and the value of one, not encoded.
  void write_tags(Writer &out, string_view tags) const;
  void write_tag_value(Writer &out, string_view key, string_view value, Put put = put_plain) const;

  // In the place of file_hash(), which anybody can compute of a path that he supposes.
  uint64_t file_hash(uint64_t open_hash) const;
  // By which runs with one key know each other.
  uint64_t fingerprint() const { return fingerprint_; }
  // Whether it is in /usr or its like, but for what links in between do.
  static bool is_public(string_view path);

 private:
  static void put_plain(Writer &out, string_view part) { out << part; }
  void write_parts(Writer &out, string_view text, Put put) const;
  void write_part(Writer &out, string_view part, Put put) const;
  void write_hash(Writer &out, string_view text, Put put) const;
  void write_socket(Writer &out, string_view name, Put put) const;
  void write_socket_end(Writer &out, string_view end, Put put) const;
  bool write_each_tag(Writer &out, string_view tags, bool in_parts) const;

  SipKey names_, files_;
  uint64_t fingerprint_ = 0;
  string_view kept_;
  bool is_on_ = false;
};

}  // namespace tailrace
