// See format/journal_place.h.
#include "format/journal_place.h"

#include <errno.h>

#include "base/own_memory.h"
#include "base/sys.h"
#include "format/host_facts.h"
#include "format/journal.h"
#include "format/settings.h"

namespace tailrace {
namespace {

constexpr string_view kRunPlace = "/journals/";

string_view default_place() { return kSettings[static_cast<size_t>(Setting::TAILRACE_JOURNAL_DIR)].fallback; }

bool write_device(Writer &out) {
  struct statx s;
  if (sys::statx(AT_FDCWD, default_place().data(), 0, STATX_TYPE, &s) < 0) return false;
  out.number(s.stx_dev_major) << ':';
  out.number(s.stx_dev_minor) << '@';
  return !out.overflowed();
}

// A file of the size of a short process's journal can be made and mapped.
int try_journal(const char *path) {
  size_t bytes = segment_bytes(kFirstSlots);
  int fd = sys::open(path, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW, 0600);
  if (fd < 0) return fd;
  int status = sys::fallocate(fd, 0, static_cast<int64_t>(bytes));
  if (status == -EOPNOTSUPP) status = sys::ftruncate(fd, static_cast<int64_t>(bytes));
  void *map = status == 0 ? own_memory::file(fd, bytes) : nullptr;
  if (map) own_memory::release(map, bytes);
  if (status == 0 && !map) status = -ENODEV;
  sys::unlink(path);
  sys::close(fd);
  return status;
}

}  // namespace

bool is_default_place(string_view chosen) { return chosen == default_place(); }

bool write_journal_device(Writer &out, int64_t &bytes_read) {
  return write_device(out) && write_boot_id(out, bytes_read) && !out.overflowed();
}

bool is_containers_own(string_view device, int64_t &bytes_read) {
  char text[128];
  Writer here(text, sizeof text);
  if (device.empty() || !write_device(here) || starts_with(device, here.view())) return false;
  const size_t at = device.rfind('@');
  here.truncate(0);
  return at != string_view::npos && write_boot_id(here, bytes_read) &&
         slice(device, at + 1, device.size() - at - 1) == here.view();
}

bool write_journal_place(Writer &out, int place, string_view chosen, unsigned uid, string_view run_dir,
                         int64_t &bytes_read) {
  if (place > 0 && !is_default_place(chosen)) return false;
  switch (place) {
    case 0: out << chosen; break;
    case 1: (out << "/run/user/").number(uid); break;
    case 2:
      if (!write_boot_id(out << run_dir << kRunPlace, bytes_read)) return false;
      break;
    default: return false;
  }
  return !out.overflowed();
}

size_t existing_part(int place, string_view directory, string_view run_dir) {
  return place == 2 ? run_dir.size() : directory.size();
}

void remove_empty_place(string_view directory, string_view run_dir) {
  char path[4096];
  size_t n = directory.size();
  if (n >= sizeof path || !starts_with(directory, run_dir) || n <= run_dir.size() || directory[run_dir.size()] != '/') {
    return;
  }
  memcpy(path, directory.data(), n);
  path[n] = 0;
  // It may still be there: another process has made it again.
  sys::rmdir(path);
  while ((n = string_view(path, n).rfind('/')) > run_dir.size()) {
    path[n] = 0;
    if (sys::rmdir(path) < 0) return;
  }
}

bool is_directory_of(const char *path, unsigned uid) {
  struct statx s;
  if (sys::statx(AT_FDCWD, path, AT_SYMLINK_NOFOLLOW, STATX_TYPE | STATX_UID, &s) < 0) return false;
  return S_ISDIR(s.stx_mode) && s.stx_uid == uid;
}

int check_journal_directory(string_view chosen, unsigned uid) {
  if (chosen.empty() || chosen[0] != '/') return -EINVAL;
  char path[2048];
  Writer w(path, sizeof path);
  (w << chosen << "/tailrace-").number(uid);
  if (w.overflowed()) return -ENAMETOOLONG;
  int status = sys::mkdir(w.c_str(), 0700);
  if (status < 0 && status != -EEXIST) return status;
  if (!is_directory_of(w.c_str(), uid)) return -EPERM;
  (w << "/.check-").number(sys::getpid());
  return w.overflowed() ? -ENAMETOOLONG : try_journal(w.c_str());
}

}  // namespace tailrace
