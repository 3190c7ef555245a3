// The life of a session: start, a thread's first event, fork, the end. Segments are session/segment.cc's.
#include "session/session.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <new>

#include "base/arena.h"
#include "base/sys.h"
#include "format/program.h"
#include "format/seccomp_filter.h"
#include "linker/libc_memory.h"
#include "session/ledger.h"
#include "session/libraries.h"
#include "session/path_buffer.h"
#include "session/record.h"
#include "session/segment.h"
#include "session/segment_file.h"

// The dynamic linker's.
extern "C" void *__libc_stack_end;
#ifdef TAILRACE_SANITIZED
void tailrace_report_to(const char *path);  // base/sanitizer.cc
#endif

namespace tailrace {

Session g_session{};
__thread Thread *t_thread = nullptr;
__thread Context *t_context = nullptr;
__thread uint32_t t_vfork = 0;
__thread uint32_t t_confined = 0;
__thread Thread *t_thread_before_vfork = nullptr;
__thread void *t_held_stream = nullptr;

namespace {

pthread_key_t g_thread_key;
char **g_argv;

// PTHREAD_DESTRUCTOR_ITERATIONS. In the last ThreadSanitizer takes leave of the thread.
#ifdef __SANITIZE_THREAD__
constexpr uintptr_t kDestructorRounds = 2;
#else
constexpr uintptr_t kDestructorRounds = 4;
#endif

// Destructors of other libraries' keys may still do I/O; as long as rounds are left, ours asks to come last.
void thread_ends(void *value) {
  // Cancelled in a call on a stream, the thread never came back to let go of it.
  if (t_held_stream) funlockfile(static_cast<FILE *>(t_held_stream));
  t_held_stream = nullptr;
  auto rounds = reinterpret_cast<uintptr_t>(value);
  if (rounds < kDestructorRounds) {
    pthread_setspecific(g_thread_key, reinterpret_cast<void *>(rounds + 1));
    return;
  }
  if (Thread *t = t_thread) release_thread(t);
}

bool make_wiped_page() {
  void *page = sys::allocate_pages(4096);
  if (!page) return false;
  // Kernels before 4.14 have no such advice; after_fork_in_child then does it for fork(3).
  sys::madvise(page, 4096, MADV_WIPEONFORK);
  g_session.wiped = new (page) WipedOnFork;
  return true;
}

void read_host_name() {
  utsname u;
  Writer w(g_session.host, sizeof g_session.host);
  if (uname(&u) == 0) w << static_cast<const char *>(u.nodename);
  w.c_str();
}

// The process's own names: trace file and journals.
void name_process() {
  Session &g = g_session;
  name_journal();
  Writer trace(g.trace_path, sizeof g.trace_path - 1);
  trace << g.environment[Setting::TAILRACE_RUN] << "/trace/";
  write_process_stem(trace, g.host, g.pid, g.start_realtime_ns);
  trace << ".pfw.gz";
  trace.c_str();
}

void begin_process() {
  Session &g = g_session;
  g.pid = sys::getpid();
  g.pid_namespace = pid_namespace();
  g.start = sample_clock(g.clock_kind);
  g.start_realtime_ns = realtime_ns();
  g.segment_count = g.kept_segments = 0;
  g.unhoused_losses.store(0);
  g.start_recorded = false;
  g.sealed_for_exit = false;
  name_process();
}

void start_clock() {
  Session &g = g_session;
  ClockReference reference = parse_clock_reference(g.environment[Setting::TAILRACE_CLOCK]);
  g.clock_kind = reference.kind;
  ClockSample now = sample_clock(g.clock_kind);
  g.reference_rate_q32 = rate_between(reference.sample, now);
  string_view text = g.environment[Setting::TAILRACE_BLOCK_AGE];
  uint64_t age_s;
  if (!take_decimal(text, age_s) || !text.empty() || age_s == 0) age_s = 10;
  auto ticks = static_cast<unsigned __int128>(age_s * 1000000000ULL) << 32;
  g.block_age_ticks = static_cast<uint64_t>(ticks / g.reference_rate_q32);
}

// The process's own context: what it was told, and what the resource manager says of itself.
void make_root_context() {
  Session &g = g_session;
  char buffer[kMaxTagsBytes + 1], extra[2 * 3 * kMaxTagValueBytes + 16], message[256];
  Writer faults(message, sizeof message), more(extra, sizeof extra);
  TagSet told, found;
  size_t at;
  // The launcher has checked them; a set that is wrong all the same is none.
  if (!parse_tags(g.environment[Setting::TAILRACE_TAGS], told, at, faults)) told.count = 0;
  auto add = [&](string_view key, string_view value) {
    if (value.empty() || told.find(key)) return;
    if (more.size()) more << ',';
    more << key << '=';
    encode_tag_value(value, more);
  };
  add("job", g.environment.job);
  add("rank", g.environment.rank);
  if (!parse_tags(more.view(), found, at, faults)) found.count = 0;
  Writer all(buffer, sizeof buffer);
  if (!merge_tags(told, found, all)) all.truncate(0);
  g.root = intern_context(all.view());
}

// The processors that the process may run on as the kernel writes lists of them (cpuset(7), "List format").
void describe_processors(Writer &w) {
  unsigned long set[16] = {};  // 1024 processors
  constexpr unsigned kBits = 8 * sizeof set[0];
  long bytes = sys::call(SYS_sched_getaffinity, 0, sizeof set, sys::pointer(set));
  if (bytes <= 0) return;
  auto has = [&](unsigned i) { return i < 8 * sizeof set && (set[i / kBits] >> i % kBits & 1); };
  const char *comma = "";
  w << ",\"cpus\":\"";
  for (unsigned i = 0; i < 8 * static_cast<unsigned>(bytes); ++i) {
    if (!has(i)) continue;
    unsigned last = i;
    while (has(last + 1)) ++last;
    (w << comma).number(i);
    if (last > i) (w << '-').number(last);
    comma = ",";
    i = last;
  }
  w << '"';
}

// The control group (cgroups(7)): of the one hierarchy of version 2, or where that puts nothing but its root, of the
// first of version 1 that does. Returns the bytes that were read.
long describe_control_group(Writer &w) {
  char text[4096];
  int fd = sys::open("/proc/self/cgroup", O_RDONLY);
  if (fd < 0) return 0;
  long n = sys::read(fd, text, sizeof text);
  sys::close(fd);
  if (n <= 0) return 0;
  string_view rest(text, static_cast<size_t>(n)), found;
  while (!rest.empty()) {
    size_t end = rest.find('\n');
    string_view line = slice(rest, 0, end == string_view::npos ? rest.size() : end);
    rest.remove_prefix(end == string_view::npos ? rest.size() : end + 1);
    // hierarchy:controllers:path
    size_t path = line.find(':', line.find(':') + 1);
    if (path == string_view::npos) continue;
    string_view group = slice(line, path + 1, line.size() - path - 1);
    bool second = starts_with(line, "0::");
    if (found.size() <= 1 || (second && group.size() > 1)) found = group;
  }
  if (!found.empty()) (w << ",\"cgroup\":").json(found);
  return n;
}

// ppid, exe, cwd, uid, cpus, cgroup, argv: the members of the start event's args. Returns the bytes that were read.
long describe_process(char **argv) {
  Session &g = g_session;
  char path[4096];
  Writer w(g.process_members, sizeof g.process_members);
  w << "\"ppid\":";
  w.number(sys::getppid());
  long n = sys::readlink("/proc/self/exe", path, sizeof path);
  w << ",\"exe\":";
  w.json({path, n > 0 ? static_cast<size_t>(n) : 0});
  n = sys::getcwd(path, sizeof path);
  w << ",\"cwd\":";
  w.json({path, n > 1 ? static_cast<size_t>(n) - 1 : 0});
  if (is_go_program()) w << ",\"runtime\":\"go\"";
  w << ",\"uid\":";
  w.number(sys::getuid());
  describe_processors(w);
  long looked_at = describe_control_group(w);
  w << ",\"argv\":[";
  size_t whole = w.size();
  for (char **a = argv; a && *a; ++a) {
    if (a != argv) w << ',';
    w.json(*a);
    // A long command line is cut at an argument's end.
    if (w.overflowed() || w.room() < 16) break;
    whole = w.size();
  }
  w.truncate(whole);
  w << ']';
  g.process_members_bytes = w.size();
  return looked_at;
}

// TAILRACE_PROCESS: <filters>:<user>, and of an image that another of the same process has made way for
// :<pid>:<start>:<segments>:<this thread's segment>.
struct Identity {
  uint64_t filters = 0, user = 0, pid = 0, start = 0, segments = 0, mine = 0;
  bool handed_on = false, whole = false;

  explicit Identity(string_view text) {
    handed_on = take(text, filters) && take(text, user);
    whole = handed_on && take(text, pid) && take(text, start) && take(text, segments) && take(text, mine);
  }

 private:
  static bool take(string_view &text, uint64_t &number) {
    bool is = take_decimal(text, number);
    if (is && !text.empty() && text[0] == ':') text.remove_prefix(1);
    return is;
  }
};

bool adopt_process() {
  Identity told(g_session.environment[Setting::TAILRACE_PROCESS]);
  // The variable is this process's own only if it was set right before this exec; a child has it from its parent.
  if (!told.whole || static_cast<int>(told.pid) != sys::getpid() || told.segments == 0 || told.segments > 4096 ||
      told.mine >= told.segments) {
    return false;
  }
  g_session.pid = static_cast<int>(told.pid);
  g_session.start_realtime_ns = told.start;
  name_process();
  return adopt_segments(static_cast<uint32_t>(told.segments), static_cast<uint32_t>(told.mine));
}

void find_own_library() {
  if (!g_session.environment.preload.empty()) return;
  Dl_info info;
  if (!dladdr(reinterpret_cast<void *>(&g_session), &info) || !info.dli_fname) return;
  size_t n = strlen(info.dli_fname);
  auto *copy = static_cast<char *>(arena_allocate(n + 1));
  if (!copy) return;
  memcpy(copy, info.dli_fname, n);
  g_session.environment.preload = {copy, n};
}

bool prepare() {
  Session &g = g_session;
  if (g.environment[Setting::TAILRACE_RUN].size() > 2500 ||
      g.environment[Setting::TAILRACE_JOURNAL_DIR].size() > 1500) {
    return false;
  }
  use_libc_memory();
  if (!make_wiped_page()) return false;
  find_own_library();
  read_host_name();
  start_clock();
  make_root_context();
  if (!g.root) return false;
  Identity told(g.environment[Setting::TAILRACE_PROCESS]);
  g.journal_uid = told.handed_on ? static_cast<unsigned>(told.user) : sys::geteuid();
  begin_process();
  if (!adopt_process()) begin_process();
  if (pthread_key_create(&g_thread_key, thread_ends) != 0) return false;
  pthread_atfork(before_fork, after_fork_in_parent, after_fork_in_child);
  return true;
}

// A forked child: what it has of its parent's threads is unmapped memory.
void become_child() {
  Session &g = g_session;
  g.threads = nullptr;
  if (g.first_segment) {
    if (g.kin) sys::munmap(g.kin, kSegmentHeaderBytes);
    g.kin = g.first_segment;
    g.first_segment = nullptr;
  }
  forget_scratch();
  if (g.end_exposure_in_child) g.end_exposure_in_child();
  begin_process();
  if (!g.wiped->by_libc) inherit_libraries(false);
  begin_child_ledger();
  // argv may have been written over by now, but exe, cwd and parent are the child's own.
  long looked_at = describe_process(g_argv);
  g.wiped->alive.store(1, std::memory_order_release);
  count_own(looked_at, 0);
}

Thread *free_thread() {
  for (Thread *t = g_session.threads; t; t = t->next_thread) {
    if (!t->in_use.load(std::memory_order_acquire)) return t;
  }
  return new_thread();
}

Thread *begin_thread() {
  Thread *t;
  bool first;
  {
    sys::SignalsBlocked signals;
    bool goes_on;
    {
      Locked lock(g_session.wiped->table);
      t = free_thread();
      if (!t) return nullptr;
      t->in_use.store(1, std::memory_order_relaxed);
      t->tid = static_cast<uint32_t>(sys::gettid());
      t->retry_events = 0;
      t->paths_taken = 0;
      t_thread = t;
      goes_on = t->segment != nullptr;
      if (!goes_on) open_segment(t);
      first = g_session.process_members_bytes && !g_session.start_recorded;
      g_session.start_recorded = g_session.start_recorded || first;
    }
    // May seal, and so not under the table lock: the sealing lock comes before it.
    if (goes_on) note_thread(t);
  }
  pthread_setspecific(g_thread_key, reinterpret_cast<void *>(uintptr_t{1}));
  if (first) record_process_start(t);
  return t;
}

}  // namespace

Thread *new_thread() {
  auto *t = static_cast<Thread *>(arena_allocate(sizeof(Thread)));
  if (!t) return nullptr;
  t->paths = static_cast<char *>(arena_allocate(kPathBytes * kPathBuffersPerThread));
  t->next_thread = g_session.threads;
  g_session.threads = t;
  return t;
}

Thread *enter_slowly() {
  if (t_vfork || t_confined) return nullptr;
  State state = g_session.state.load(std::memory_order_acquire);
  if (state != State::kOn) {
    if (state != State::kNew) return nullptr;
    start_session(nullptr);
    if (g_session.state.load(std::memory_order_acquire) != State::kOn) return nullptr;
  }
  if (!g_session.wiped->alive.load(std::memory_order_acquire)) {
    sys::SignalsBlocked signals;
    t_thread = nullptr;
    become_child();
  }
  if (t_thread) return t_thread;
  // pthread_setspecific may allocate, an allocator may do I/O, and that comes back here.
  static __thread bool t_beginning;
  if (t_beginning) return nullptr;
  t_beginning = true;
  Thread *t = begin_thread();
  t_beginning = false;
  return t;
}

// Where the kernel put the program's arguments: at the stack's end, behind their number (System V ABI, "Process
// Initialization"). For whoever is here before our constructor, which is given them: another library's, that does I/O.
static char **find_arguments() {
  auto *argc = static_cast<long *>(__libc_stack_end);
  auto **argv = reinterpret_cast<char **>(argc + 1);
  bool sound = argc && *argc > 0 && *argc < (1 << 22) && !argv[*argc];
  return sound ? argv : nullptr;
}

// A process may begin under a filter that nobody traced has set: a static program's, or one that came by a raw system
// call. Nobody has asked it what it does to our calls, and until then only those are made that the dynamic linker has
// made before us. Whoever counted no filters for us (other managers than the launcher) is trusted.
static bool is_free_to_start() {
  Session &g = g_session;
  Identity told(g.environment[Setting::TAILRACE_PROCESS]);
  long looked_at = 0, found = count_filters(looked_at);
  if (told.handed_on && found > static_cast<long>(told.filters)) return false;
  g.filters.store(found > 0 ? static_cast<uint32_t>(found) : 0, std::memory_order_relaxed);
  return true;
}

void start_session(char **argv) {
  State expected = State::kNew;
  if (!g_session.state.compare_exchange_strong(expected, State::kStarting)) {
    if (argv && !g_argv) g_argv = argv;
    return;
  }
  bool asked = read_environment(environ, g_session.environment);
#ifdef TAILRACE_SANITIZED
  string_view reports = g_session.environment[Setting::TAILRACE_SANITIZER_REPORTS];
  if (asked && !reports.empty()) tailrace_report_to(reports.data());
#endif
  if (!asked || !is_free_to_start()) {
    if (asked && !g_session.environment.is_in_sight()) hide_settings(environ);
    g_session.state.store(State::kOff, std::memory_order_release);
    return;
  }
  sys::SignalsBlocked signals;
  g_argv = argv ? argv : find_arguments();
  if (!prepare()) {
    g_session.state.store(State::kOff, std::memory_order_release);
    return;
  }
  describe_process(g_argv);  // what that read is in the base of the ledger, which begins now
  if (g_session.environment.is_in_sight())
    hide_identity(environ);
  else
    hide_settings(environ);
  begin_ledger(g_session.ledger != nullptr);
  g_session.wiped->alive.store(1, std::memory_order_release);
  g_session.state.store(State::kOn, std::memory_order_release);
}

void leave_off() {
  g_session.state.store(State::kOff, std::memory_order_release);
  // Threads that have a way in ask again, and are told.
  g_session.wiped->alive.store(0, std::memory_order_release);
  t_thread = nullptr;
}

void release_thread(Thread *t) {
  settle_library();
  // Those of calls that were cancelled.
  t->accounts = 0;
  t->captured_to = nullptr;
  t_thread = nullptr;
  t->in_use.store(0, std::memory_order_release);
}

void write_process_identity(Writer &out, bool same) {
  const Session &g = g_session;
  out.number(g.filters.load(std::memory_order_relaxed)) << ':';
  out.number(g.journal_uid);
  if (!same || t_vfork || !t_thread || !t_thread->segment) return;
  out << ':';
  out.number(g.pid) << ':';
  out.number(static_cast<int64_t>(g.start_realtime_ns)) << ':';
  out.number(g.segment_count) << ':';
  out.number(t_thread->segment->segment);
}

namespace {
// Only the forking thread uses it, and it blocks all signals before it writes it.
uint64_t g_mask_before_fork;
}  // namespace

void before_fork() {
  uint64_t all = ~0ULL, saved = 0;
  sys::call(SYS_rt_sigprocmask, SIG_SETMASK, sys::pointer(&all), sys::pointer(&saved), sizeof saved);
  g_session.wiped->sealing.lock();
  g_session.wiped->table.lock();
  g_mask_before_fork = saved;
}

void after_fork_in_parent() {
  uint64_t saved = g_mask_before_fork;
  g_session.wiped->table.unlock();
  g_session.wiped->sealing.unlock();
  sys::call(SYS_rt_sigprocmask, SIG_SETMASK, sys::pointer(&saved), 0, sizeof saved);
}

void after_fork_in_child() {
  uint64_t saved = g_mask_before_fork;
  new (g_session.wiped) WipedOnFork{};
  g_session.wiped->by_libc = true;
  inherit_libraries(true);
  sys::call(SYS_rt_sigprocmask, SIG_SETMASK, sys::pointer(&saved), 0, sizeof saved);
}

}  // namespace tailrace
