// Files and directories: descriptors that close themselves, whole files, the parts of paths.
#pragma once

#include <sys/stat.h>

#include <string>
#include <string_view>
#include <vector>

namespace tailrace::launcher {

class Descriptor {
 public:
  explicit Descriptor(int fd) : fd_(fd) {}
  ~Descriptor();
  Descriptor(const Descriptor &) = delete;
  Descriptor &operator=(const Descriptor &) = delete;
  int get() const { return fd_; }
  bool is_open() const { return fd_ >= 0; }

 private:
  int fd_;
};

// Up to `most` bytes of a file, in as many reads as it needs. Throws Fault (kSystem).
std::string read_file(const std::string &path, size_t most);
// The same of a regular file only; no link is followed and no FIFO waited for. A larger one is refused.
std::string read_regular(const std::string &path, size_t most);
// Makes a new file of this user alone. Throws Fault (kSystem).
void write_new_file(const std::string &path, std::string_view content);

// The names in a directory, sorted, without "." and "..". Throws Fault (kSystem).
std::vector<std::string> names_in(const std::string &directory);
bool ends_with(std::string_view text, std::string_view end);
// The path behind the working directory, without empty parts and "." (as Python's pathlib).
std::string absolute(const std::string &path);
std::string last_part(std::string_view path);
// This host as it is spelled in the names of a run's files.
std::string file_host();
// HOST-PID-NS, the nanoseconds in hex: of the names of files that one process writes into a run.
std::string process_stem(int pid, int64_t ns);
// At most `most` bytes of the text, with "_" for what is no letter, digit, ".", "_" or "-".
std::string file_word(std::string_view text, size_t most);

}  // namespace tailrace::launcher
