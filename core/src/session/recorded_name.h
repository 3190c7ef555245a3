// What the run has of the name of a file, an object or a region: the name, or where names are hashed its hashes.
#pragma once

#include "session/path_buffer.h"

namespace tailrace {

// A hashed name is in `room`. The name of an existing file of the machine is written as it is (format/name_hashing.h)
// only where the directory that it is called by is one: a link in /usr may lead to a user's directory.
string_view recorded_name(string_view name, FileType type, PathBuffer &room);

}  // namespace tailrace
