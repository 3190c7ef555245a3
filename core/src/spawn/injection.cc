// See spawn/injection.h.
#include "spawn/injection.h"

#include <limits.h>
#include <stdlib.h>

#include "base/checked_memory.h"
#include "base/sys.h"
#include "format/follow_request.h"
#include "session/container_start.h"
#include "session/files.h"
#include "session/ledger.h"
#include "session/own_descriptors.h"
#include "session/segment_file.h"
#include "spawn/library_access.h"

namespace tailrace {

constexpr size_t kEntriesAtOnce = 16;  // the thread may have a small stack

bool is_injecting() {
  // Starts the session, except in a vfork child, in which nothing may be changed.
  if (!is_vfork_child()) enter();
  if (vfork_state().confined) return false;
  return g_session.state.load(std::memory_order_acquire) == State::kOn;
}

namespace {

// A string of any length that ends.
bool reads_as_text(const char *text) {
  char part[256];
  for (;;) {
    const long n = copy_memory(sys::getpid(), reinterpret_cast<uintptr_t>(text), part, sizeof part);
    if (n <= 0) return !is_missing(n);
    if (memchr(part, 0, static_cast<size_t>(n))) return true;
    text += n;
  }
}

// Whether an entry begins as one that is looked at; `seen` bytes of it are there.
bool may_be_looked_at(const char *entry, size_t seen) {
  for (string_view name : {string_view("TAILRACE_"), string_view("LD_PRELOAD=")}) {
    if (memcmp(entry, name.data(), seen < name.size() ? seen : name.size()) == 0) return true;
  }
  return false;
}

// Of `count` entries all can be read, as far as the core reads them.
bool read_as_entries(char *const *entries, size_t count) {
  constexpr size_t kLook = 12, kPage = 4096;
  char looked[kEntriesAtOnce][kLook];
  struct iovec here[kEntriesAtOnce], there[kEntriesAtOnce];
  size_t bytes = 0;
  for (size_t i = 0; i < count; ++i) {
    const size_t in_page = kPage - reinterpret_cast<uintptr_t>(entries[i]) % kPage,
                 n = in_page < kLook ? in_page : kLook;
    here[i] = {looked[i], n};
    there[i] = {entries[i], n};
    bytes += n;
  }
  const auto parts = static_cast<long>(count);
  const long got =
      sys::call(SYS_process_vm_readv, sys::getpid(), sys::pointer(here), parts, sys::pointer(there), parts, 0);
  if (got < 0) return !is_missing(got);
  bool is_whole = got == static_cast<long>(bytes);
  for (size_t i = 0; is_whole && i < count; ++i) {
    if (may_be_looked_at(looked[i], here[i].iov_len)) is_whole = reads_as_text(entries[i]);
  }
  return is_whole;
}

}  // namespace

bool reads_as_environment(char *const *environment) {
  if (!environment || environment == environ) return true;
  char *entries[kEntriesAtOnce];
  for (auto at = reinterpret_cast<uintptr_t>(environment);; at += sizeof entries) {
    const long got = copy_memory(sys::getpid(), at, entries, sizeof entries);
    if (got < 0) return !is_missing(got);
    const size_t read = static_cast<size_t>(got) / sizeof *entries;
    size_t count = 0;
    while (count < read && entries[count]) ++count;
    if (count && !read_as_entries(entries, count)) return false;
    if (count < read) return true;
    if (read < kEntriesAtOnce) return false;
  }
}

// Working memory for merging tags, too large for the stack of a thread.
struct Injection::Merge {
  TagSet base, over;
  char message[256];
  char merged[kMaxTagsBytes + 1];
};

string_view Injection::tags_for(char *const *environment) {
  string_view own = current_context()->tags();
  string_view set = ChildEnvironment::tags_in(g_session.environment, environment);
  // Tags that the program has set for its child override its own.
  return set.empty() ? own : merge(own, set);
}

string_view Injection::merge(string_view own, string_view set) {
  merge_ = static_cast<Merge *>(take_pages_to_execute(sizeof(Merge)));
  if (!merge_) return own;
  size_t at;
  Writer faults(merge_->message, sizeof merge_->message), merged(merge_->merged, sizeof merge_->merged);
  if (!parse_tags(own, merge_->base, at, faults, TagsOf::kCore)) return own;
  if (!parse_tags(set, merge_->over, at, faults, TagsOf::kCore)) return own;
  return merge_tags(merge_->base, merge_->over, merged) ? merged.view() : own;
}

Injection::~Injection() {
  if (merge_) give_back_pages(merge_, sizeof(Merge));
}

EnvironmentPages::EnvironmentPages(size_t bytes) : bytes_(bytes), pages_(nullptr) {
  constexpr size_t kMostOnStack = 4096;
  if (bytes > kMostOnStack) pages_ = take_pages_to_execute(bytes);
}

EnvironmentPages::~EnvironmentPages() {
  if (pages_) give_back_pages(pages_, bytes_);
}

string_view Injection::write_process(Kind kind) {
  Writer w(process_, sizeof process_);
  write_process_identity(w, kind == kSameProcess);
  return w.view();
}

static string_view managed_tags() {
  const ManagedTags *managed = g_session.managed.load(std::memory_order_acquire);
  return managed ? managed->used : string_view();
}

Injection::Injection(char *const *environment, Kind kind)
    : environment_(environment),
      child_(g_session.environment, tags_for(environment), managed_tags(), write_process(kind), environment,
             library_for_program()) {}

char *const *Injection::build(const Program &program, void *memory) const {
  if (program.carries_preload()) return child_.build(memory);
  bool has_variables = !g_session.environment[Setting::TAILRACE_UNTRACED_VARIABLES].empty();
  if (program.obstacle() == Obstacle::kLeftOut && has_variables) return child_.build_left_out(memory);
  bool clean = program.obstacle() == Obstacle::kDropped || !g_session.environment.is_exposed();
  return clean ? environment_ : child_.build_without(memory);
}

namespace {

bool is_executable(const char *path) {
  struct statx s;
  return sys::statx(AT_FDCWD, path, AT_STATX_DONT_SYNC, STATX_TYPE | STATX_MODE, &s) == 0 && S_ISREG(s.stx_mode) &&
         (s.stx_mode & 0111);
}

}  // namespace

// Whether TAILRACE_UNTRACED has the program. By identity, since a program has many names: links, and views of a package
// manager.
static bool is_left_out(const char *path) {
  string_view list = g_session.environment[Setting::TAILRACE_UNTRACED];
  struct statx wanted, one;
  constexpr unsigned kIdentity = STATX_TYPE | STATX_INO;
  if (list.empty() || sys::statx(AT_FDCWD, path, AT_STATX_DONT_SYNC, kIdentity, &wanted) != 0) return false;
  for (size_t i = 0; i < list.size();) {
    size_t end = i;
    while (end < list.size() && list[end] != ':') ++end;
    char program[512];  // the thread may have a small stack; longer paths are ignored
    Writer w(program, sizeof program);
    w << slice(list, i, end - i);
    if (sys::statx(AT_FDCWD, w.c_str(), AT_STATX_DONT_SYNC, kIdentity, &one) == 0 && one.stx_ino == wanted.stx_ino &&
        one.stx_dev_major == wanted.stx_dev_major && one.stx_dev_minor == wanted.stx_dev_minor) {
      return true;
    }
    i = end + 1;
  }
  return false;
}

// Of these, up to 8 KiB are left out by the kernel at random, and 8 are what the dynamic linker needs anyway.
static bool has_room_to_preload() {
  constexpr long kStack = 3;  // RLIMIT_STACK
  constexpr uint64_t kLeast = 32 * 1024;
  uint64_t limit[2] = {kLeast, kLeast};
  sys::call(SYS_prlimit64, 0, kStack, 0, sys::pointer(limit));
  return limit[0] >= kLeast;
}

Program::Program(const char *path, char *const *environment) : path_(path && reads_as_string(path) ? path : nullptr) {
  int64_t bytes_read = 0;
  if (path_) {
    const StartEnvironment &chosen = g_session.environment;
    const FollowChoice follow{chosen[Setting::TAILRACE_UNSEEN] == kFollowAll, chosen[Setting::TAILRACE_FOLLOW]};
    const bool is_out = is_left_out(path_);
    ProgramLook look{Obstacle::kLeftOut};
    if (!is_out) with_own_look([&] { look = look_at_program(path_, follow.needs(), bytes_read); });
    obstacle_ = look.obstacle;
    is_to_be_followed_ = follow.is_any() && follow.wants(path_, look);
  }
  count_own(bytes_read, 0);
  // An obstacle of the program's own, such as setuid, takes precedence over settings that the caller has removed.
  bool wanted = is_wanted_in(g_session.environment, environment);
  if (!wanted && obstacle_ == Obstacle::kNone) obstacle_ = Obstacle::kDropped;
  if (obstacle_ == Obstacle::kNone && !has_room_to_preload()) obstacle_ = Obstacle::kSmallStack;
  carries_ = wanted && !breaks(obstacle_);
  // Asked last, since it costs system calls.
  const Obstacle of_library = carries_ ? library_obstacle() : Obstacle::kNone;
  if (of_library == Obstacle::kNone) return;
  carries_ = false;
  if (obstacle_ == Obstacle::kNone) obstacle_ = of_library;
}

bool Program::leave_out_settings() {
  if (!carries_) return false;
  carries_ = false;
  obstacle_ = Obstacle::kTooLong;
  return true;
}

void Program::look_for_place() {
  if (path_ && obstacle_ == Obstacle::kNone && !has_place_for_journal()) obstacle_ = Obstacle::kNoPlace;
}

namespace {
// Where a vfork child, which may not record, leaves the program that it is about to execute. It runs in its parent's
// memory, and the parent takes it when vfork returns there. One place is enough: two at once would be two threads that
// vfork untraceable programs.
struct VforkedProgram {
  std::atomic<uint32_t> taken;
  int pid;
  Obstacle obstacle;
  char path[1024];
};
VforkedProgram g_vforked;
}  // namespace

void Program::leave_to_parent() const {
  uint32_t free = 0;
  if (!is_vfork_child() || obstacle_ == Obstacle::kNone || !g_vforked.taken.compare_exchange_strong(free, 1)) return;
  Writer w(g_vforked.path, sizeof g_vforked.path);
  w << path_;
  w.c_str();
  g_vforked.obstacle = obstacle_;
  g_vforked.pid = sys::getpid();
}

void Program::take_back() {
  if (is_vfork_child() && g_vforked.taken.load() && g_vforked.pid == sys::getpid()) g_vforked.taken.store(0);
}

Obstacle Program::take_from_child(int pid, NamedFile &file) {
  if (!g_vforked.taken.load(std::memory_order_acquire) || g_vforked.pid != pid) return Obstacle::kNone;
  Obstacle obstacle = g_vforked.obstacle;
  name_file(AT_FDCWD, g_vforked.path, Lookup::kFollow, file);
  g_vforked.taken.store(0, std::memory_order_release);
  return obstacle;
}

const char *search_path(const char *file, char *out, size_t size) {
  if (!file || !reads_as_string(file)) return file;
  const string_view name(file, path_length(file));
  if (name.size() > NAME_MAX || name.find('/') != string_view::npos) return file;
  const char *list = getenv("PATH");
  string_view all = list ? string_view(list) : string_view("/bin:/usr/bin");
  for (size_t i = 0; i <= all.size();) {
    size_t end = i;
    while (end < all.size() && all[end] != ':') ++end;
    Writer w(out, size);
    if (end > i) w << slice(all, i, end - i) << '/';
    w << name;
    if (is_executable(w.c_str())) return out;
    i = end + 1;
  }
  return file;
}

}  // namespace tailrace
