// See format/host_description.h.
#include "format/host_description.h"

#include <errno.h>

#include "base/clock.h"
#include "base/own_memory.h"
#include "base/sys.h"
#include "format/host_facts.h"
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
  Description(Memory &memory, int fd, const NameHasher &hasher)
      : m_(memory), fd_(fd), hasher_(hasher), out_(memory.text, sizeof memory.text) {}

  // False: it is incomplete.
  bool write(string_view host, ClockKind kind);
  const DescriptionBytes &bytes() const { return bytes_; }

 private:
  void put_boot_id();
  void put_mounts();
  void put_mount(char *line, size_t n);
  void put_path(string_view path, bool is_of_this_host);
  void flush();
  long read(int fd, char *to, size_t room);

  Memory &m_;
  int fd_;
  const NameHasher &hasher_;
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
  char text[64];
  Writer id(text, sizeof text);
  out_ << ",\n \"boot_id\": ";
  if (write_boot_id(id, bytes_.read))
    out_.json(id.view());
  else
    out_ << "null";
}

// As describe_run() of the launcher does.
void Description::put_path(string_view path, bool is_of_this_host) {
  out_ << '"';
  hasher_.write_mount(out_, path, is_of_this_host, put_json_part);
  out_ << '"';
}

void Description::put_mount(char *line, size_t n) {
  MountLine mount;
  if (!parse_mount(line, n, mount)) return;
  out_ << (any_mount_ ? ",\n  {\"dev\": " : "\n  {\"dev\": ");
  any_mount_ = true;
  out_.json(mount.dev) << ", \"source\": ";
  put_path(mount.source, true);
  out_ << ", \"root\": ";
  put_path(mount.root, false);
  out_ << ", \"point\": ";
  put_path(mount.point, true);
  out_ << ", \"fstype\": ";
  out_.json(mount.fstype) << '}';
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

bool Description::write(string_view host, ClockKind kind) {
  const uint64_t monotonic = monotonic_ns(), realtime = realtime_at(monotonic);
  (out_ << "{\"host\": ").json(host);
  put_boot_id();
  (out_ << ",\n \"clock\": {\"realtime_ns\": ").number(static_cast<int64_t>(realtime));
  (out_ << ", \"monotonic_ns\": ").number(static_cast<int64_t>(monotonic)) << '}';
  out_ << ",\n \"time\": ";
  write_time_facts(out_, kind, bytes_.read);
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

DescriptionBytes write_host_description(string_view run_dir, string_view host, const NameHasher &hasher,
                                        ClockKind kind) {
  auto *memory = static_cast<Memory *>(own_memory::pages(sizeof(Memory)));
  if (!memory) return {};
  DescriptionBytes bytes;
  int fd = sys::file_size_limit() < kMostBytes ? -EFBIG : create(*memory, run_dir, host);
  if (fd >= 0) {
    Description description(*memory, fd, hasher);
    bool whole = description.write(host, kind);
    bytes = description.bytes();
    // One that is cut off would be taken for damage; without one it is said that there is none.
    if (sys::close(fd) < 0 || !whole) sys::unlink(memory->path);
  }
  own_memory::release(memory, sizeof(Memory));
  return bytes;
}

}  // namespace tailrace
