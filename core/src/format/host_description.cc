// See format/host_description.h.
#include "format/host_description.h"

#include <errno.h>

#include "base/clock.h"
#include "base/sys.h"
#include "format/journal.h"

namespace tailrace {
namespace {

// A line of mountinfo; the options of an overlay have a path for each layer. Longer ones are left out.
constexpr size_t kLineBytes = 16 * 1024;
// Of a byte of it in JSON, and the keys.
constexpr size_t kTextBytes = 64 * 1024 + 6 * kLineBytes;
// More than any node has mounts.
constexpr uint64_t kMostBytes = 16 << 20;

struct Memory {
  char path[4096];
  char lines[kLineBytes];
  char text[kTextBytes];
};

class Description {
 public:
  Description(Memory &memory, int fd) : m_(memory), fd_(fd), out_(memory.text, sizeof memory.text) {}

  // False: it is incomplete.
  bool write(string_view host);
  const DescriptionBytes &bytes() const { return bytes_; }

 private:
  void put_boot_id();
  void put_mounts();
  void put_mount(char *line, size_t n);
  void flush();
  long read(int fd, char *to, size_t room);

  Memory &m_;
  int fd_;
  Writer out_;
  DescriptionBytes bytes_;
  bool failed_ = false, any_mount_ = false;
};

long Description::read(int fd, char *to, size_t room) {
  long n = sys::read(fd, to, room);
  if (n > 0) bytes_.read += n;
  return n;
}

void Description::flush() {
  string_view text = out_.view();
  for (size_t done = 0; done < text.size() && !failed_;) {
    long n = sys::write(fd_, text.data() + done, text.size() - done);
    if (n == -EINTR) continue;
    failed_ = n <= 0 || static_cast<uint64_t>(bytes_.written + n) > kMostBytes;
    if (n > 0) bytes_.written += n, done += static_cast<size_t>(n);
  }
  out_.truncate(0);
}

void Description::put_boot_id() {
  constexpr long kUuidBytes = 36;
  int fd = sys::open("/proc/sys/kernel/random/boot_id", O_RDONLY);
  long n = fd < 0 ? fd : read(fd, m_.lines, sizeof m_.lines);
  if (fd >= 0) sys::close(fd);
  out_ << ",\n \"boot_id\": ";
  if (n >= kUuidBytes)
    out_.json({m_.lines, kUuidBytes});
  else
    out_ << "null";
}

// proc(5): blanks, tabs, newlines and backslashes in names are written in octal.
string_view unescape(char *field, size_t n) {
  char *to = field;
  for (size_t i = 0; i < n; ++to) {
    bool octal = field[i] == '\\' && i + 3 < n && field[i + 1] >= '0' && field[i + 1] <= '3';
    *to = octal ? static_cast<char>((field[i + 1] - '0') * 64 + (field[i + 2] - '0') * 8 + (field[i + 3] - '0'))
                : field[i];
    i += octal ? 4 : 1;
  }
  return {field, static_cast<size_t>(to - field)};
}

void Description::put_mount(char *line, size_t n) {
  constexpr int kBefore = 5, kBehind = 2;  // fields before the " - " and behind it, by proc(5)
  string_view fields[kBefore + kBehind] = {};
  int count = 0;
  bool behind = false;
  for (size_t i = 0; i < n && count < kBefore + kBehind;) {
    size_t end = i;
    while (end < n && line[end] != ' ') ++end;
    if (!behind && end == i + 1 && line[i] == '-') {
      if (count < kBefore) return;
      behind = true;
    } else if (behind || count < kBefore) {
      fields[count++] = unescape(line + i, end - i);
    }
    i = end + 1;
  }
  if (count < kBefore + kBehind) return;
  out_ << (any_mount_ ? ",\n  {\"dev\": " : "\n  {\"dev\": ");
  any_mount_ = true;
  out_.json(fields[2]) << ", \"source\": ";
  out_.json(fields[6]) << ", \"root\": ";
  out_.json(fields[3]) << ", \"point\": ";
  out_.json(fields[4]) << ", \"fstype\": ";
  out_.json(fields[5]) << '}';
  if (out_.room() < 6 * kLineBytes + 256) flush();
}

void Description::put_mounts() {
  out_ << ",\n \"mounts\": [";
  int fd = sys::open("/proc/self/mountinfo", O_RDONLY);
  size_t held = 0;
  bool skipping = false;
  while (fd >= 0 && !failed_) {
    long n = read(fd, m_.lines + held, sizeof m_.lines - held);
    if (n == -EINTR) continue;
    if (n <= 0) break;
    size_t from = 0, size = held + static_cast<size_t>(n);
    for (size_t i = held; i < size; ++i) {
      if (m_.lines[i] != '\n') continue;
      if (!skipping) put_mount(m_.lines + from, i - from);
      skipping = false;
      from = i + 1;
    }
    held = size - from;
    if (held == sizeof m_.lines) skipping = true, held = 0;
    memmove(m_.lines, m_.lines + from, held);
  }
  if (fd >= 0) sys::close(fd);
  failed_ = failed_ || fd < 0;
  out_ << "\n ]";
}

bool Description::write(string_view host) {
  uint64_t realtime = realtime_ns(), monotonic = monotonic_ns();
  (out_ << "{\"host\": ").json(host);
  put_boot_id();
  (out_ << ",\n \"clock\": {\"realtime_ns\": ").number(static_cast<int64_t>(realtime));
  (out_ << ", \"monotonic_ns\": ").number(static_cast<int64_t>(monotonic)) << '}';
  put_mounts();
  out_ << "\n}\n";
  flush();
  return !failed_ && !out_.overflowed();
}

int create(Memory &m, string_view run_dir, string_view host) {
  Writer path(m.path, sizeof m.path);
  path << run_dir << "/hosts";
  size_t folder = path.size();
  path << '/';
  write_file_host(path, host);
  path << ".json";
  path.c_str();
  if (path.overflowed()) return -ENAMETOOLONG;
  constexpr int kFlags = O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW;
  int fd = sys::open(m.path, kFlags, 0600);
  if (fd != -ENOENT) return fd;
  m.path[folder] = 0;
  sys::mkdir(m.path, 0700);
  m.path[folder] = '/';
  return sys::open(m.path, kFlags, 0600);
}

}  // namespace

void write_host_mark(Writer &out, string_view journal_directory, string_view host) {
  write_file_host(out << journal_directory << '/', host);
  out << kHostMarkSuffix;
}

bool make_host_mark(const char *path) {
  int fd = sys::open(path, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW, 0600);
  if (fd >= 0) sys::close(fd);
  return fd >= 0;
}

DescriptionBytes write_host_description(string_view run_dir, string_view host) {
  auto *memory = static_cast<Memory *>(sys::allocate_pages(sizeof(Memory)));
  if (!memory) return {};
  DescriptionBytes bytes;
  int fd = sys::file_size_limit() < kMostBytes ? -EFBIG : create(*memory, run_dir, host);
  if (fd >= 0) {
    Description description(*memory, fd);
    bool whole = description.write(host);
    bytes = description.bytes();
    // One that is cut off would be taken for damage; without one it is said that there is none.
    if (sys::close(fd) < 0 || !whole) sys::unlink(memory->path);
  }
  sys::munmap(memory, sizeof(Memory));
  return bytes;
}

}  // namespace tailrace
