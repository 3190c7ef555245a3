// The life of a session: start, a thread's first event, fork, the end. Segments are in session/segment.cc.
//
// Invariants: a session, and a thread's part in it, may begin inside the program's allocator: in the allocator's first
// call, under its lock (jemalloc reads its settings there), or in a thread's. So nothing on the way from enter() to the
// first record allocates with malloc, opens a library, or takes the lock that the dynamic linker holds while it loads:
// - Functions are looked up in the tables of loaded objects (linker/lookup.h), memory is the arena's, calls are raw.
// - pthread_key_create never allocates. pthread_setspecific does for keys from kInlineKeys, so there it waits for a
//   place that no allocator calls: the start of a thread, or tailrace_attach (watch_thread_end).
// - pthread_atfork has room for 48 handlers before it allocates (glibc). It can't wait: a thread in the allocator may
//   wait for our locks, so our handler has to take them when the allocator's handler has taken its own. Handlers run in
//   reverse order before a fork, so ours is registered before any other (hooks/process.cc, __register_atfork).
// - dl_iterate_phdr takes only the lock of the list of objects, under which the dynamic linker does not allocate.
// - What can only allocate (on_exit, the search for layers) is the library's constructor's to do.
#include "session/session.h"

#include <pthread.h>
#include <stdio.h>
#include <sys/auxv.h>
#include <unistd.h>

#include <new>

#include "base/arena.h"
#include "base/own_memory.h"
#include "base/private_stack.h"
#include "base/sys.h"
#include "format/follow_request.h"
#include "format/host_facts.h"
#include "format/journal_place.h"
#include "format/program.h"
#include "format/redaction.h"
#include "format/seccomp_filter.h"
#include "linker/libc_memory.h"
#include "linker/lookup.h"
#include "session/container_start.h"
#include "session/function_calls.h"
#include "session/hand_over.h"
#include "session/ledger.h"
#include "session/libraries.h"
#include "session/memory_sharers.h"
#include "session/own_descriptors.h"
#include "session/path_buffer.h"
#include "session/process_description.h"
#include "session/processor_account.h"
#include "session/record.h"
#include "session/root_context.h"
#include "session/segment.h"
#include "session/segment_file.h"
#include "session/waits.h"

// Of the dynamic linker.
extern "C" void *__libc_stack_end;
#ifdef TAILRACE_SANITIZED
void tailrace_report_to(const char *path);  // base/sanitizer.cc
#endif

namespace tailrace {

Session g_session{};
WipedOnFork g_wiped;
__thread Thread *t_thread = nullptr;
__thread Context *t_context = nullptr;
__thread uint64_t t_region = 0;
__thread uint64_t t_thread_began = 0;
__thread VforkState t_vfork_state{};
__thread uint32_t t_confined = 0;
__thread void *t_held_stream = nullptr;

namespace {

pthread_key_t g_thread_key;
// Their values lie in the thread's descriptor (glibc's PTHREAD_KEY_2NDLEVEL_SIZE); all others' are allocated.
constexpr pthread_key_t kInlineKeys = 32;
char **g_argv;

// PTHREAD_DESTRUCTOR_ITERATIONS. In the last round ThreadSanitizer ends its own account of the thread.
#ifdef __SANITIZE_THREAD__
constexpr uintptr_t kDestructorRounds = 2;
#else
constexpr uintptr_t kDestructorRounds = 4;
#endif

// Destructors of other libraries' keys may still do I/O: as long as rounds are left, ours requests another.
void thread_ends(void *value) {
  // A thread that was cancelled in a call on a stream still holds its lock.
  if (t_held_stream) funlockfile(static_cast<FILE *>(t_held_stream));
  t_held_stream = nullptr;
  auto rounds = reinterpret_cast<uintptr_t>(value);
  if (rounds < kDestructorRounds) {
    pthread_setspecific(g_thread_key, reinterpret_cast<void *>(rounds + 1));
    return;
  }
  account_for_ended_thread();
  if (Thread *t = t_thread) release_thread(t);
}

// Kernels before 4.14 lack this advice; there let_go_in_child_of_libc zeroes the page for fork(3).
void have_wiped_on_fork() { sys::madvise(&g_wiped, sizeof g_wiped, MADV_WIPEONFORK); }

void read_host_name() {
  Writer w(g_session.host, sizeof g_session.host);
  w << HostName().view();
  w.c_str();
}

// Names the process's trace file and journals.
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
  // A fork's child may be in a time namespace that its parent made.
  if (g.start_realtime_ns) find_time_namespace(g.start.monotonic_ns, g.start_realtime_ns);
  g.start = sample_clock(g.clock_kind);
  g.start_realtime_ns = realtime_at(g.start.monotonic_ns);
  g.segment_count = 0;
  g.kept_segments = 0;
  g.losses_without_segment.store(0);
  g.unaccounted_ns = 0;
  g.unrecorded = false;
  g.start_recorded = false;
  g.sealed_for_exit = false;
  g.has_renamed_journals = false;
  name_process();
}

void start_clock() {
  Session &g = g_session;
  ClockReference reference = parse_clock_reference(g.environment[Setting::TAILRACE_CLOCK]);
  g.clock_kind = reference.kind;
  find_time_namespace(reference.sample.monotonic_ns, reference.realtime_ns);
  ClockSample now = sample_clock(g.clock_kind);
  g.reference_rate_q32 = rate_between(reference.sample, now);
  string_view text = g.environment[Setting::TAILRACE_BLOCK_AGE];
  uint64_t age_s;
  if (!take_decimal(text, age_s) || !text.empty() || age_s == 0) age_s = 10;
  auto ticks = [&](uint64_t ns) {
    return static_cast<uint64_t>((static_cast<unsigned __int128>(ns) << 32) / g.reference_rate_q32);
  };
  g.block_age_ticks = ticks(age_s * 1000000000ULL);
  g.shortest_wait_ticks = ticks(kShortestWaitUs * 1000);
}

void read_detail() {
  Session &g = g_session;
  if (!parse_detail(g.environment[Setting::TAILRACE_DETAIL], g.detail)) g.detail = {};
}

// False where names have to be hashed, and there is no key: by who started the process without a launcher of ours.
bool read_redaction() {
  Session &g = g_session;
  if (parse_redaction(g.environment[Setting::TAILRACE_REDACT]) != Redaction::kPaths) return true;
  if (!g.hasher.set_key(g.environment[Setting::TAILRACE_NAME_KEY], g.environment[Setting::TAILRACE_REDACT_KEEP]))
    return false;
  hash_recorded_tags(&g.hasher);
  return true;
}

// TAILRACE_PROCESS: <filters>:<user> and, of an image that replaces another of the same process,
// :<pid>:<start>:<segments>:<this thread's segment>.
struct Identity {
  uint64_t filters = 0, user = 0, pid = 0, start = 0, segments = 0, mine = 0;
  bool has_start = false, has_process = false;

  explicit Identity(string_view text) {
    has_start = take(text, filters) && take(text, user);
    has_process = has_start && take(text, pid) && take(text, start) && take(text, segments) && take(text, mine);
  }

 private:
  static bool take(string_view &text, uint64_t &number) {
    bool is = take_decimal(text, number);
    if (is && !text.empty() && text[0] == ':') text.remove_prefix(1);
    return is;
  }
};

unsigned journal_user() {
  Identity given(g_session.environment[Setting::TAILRACE_PROCESS]);
  return given.has_start ? static_cast<unsigned>(given.user) : sys::geteuid();
}

bool adopt_process() {
  Identity given(g_session.environment[Setting::TAILRACE_PROCESS]);
  // The variable is this process's own only if it was set right before this exec; a child inherits its parent's.
  if (!given.has_process || static_cast<int>(given.pid) != sys::getpid() || given.segments == 0 ||
      given.segments > 4096 || given.mine >= given.segments) {
    return false;
  }
  g_session.pid = static_cast<int>(given.pid);
  g_session.start_realtime_ns = given.start;
  for (int place = 0; place < kJournalPlaces; ++place) {
    g_session.journal_place = place;
    name_process();
    if (adopt_segments(static_cast<uint32_t>(given.segments), static_cast<uint32_t>(given.mine))) return true;
  }
  g_session.journal_place = 0;
  return false;
}

void find_own_library() {
  if (g_session.environment.preload.empty()) {
    if (const char *path = library_path()) g_session.environment.preload = string_view(path);
  }
}

bool prepare() {
  Session &g = g_session;
  if (g.environment[Setting::TAILRACE_RUN].size() > 2500 ||
      g.environment[Setting::TAILRACE_JOURNAL_DIR].size() > 1500) {
    return false;
  }
  use_libc_memory();
  have_wiped_on_fork();
  find_own_library();
  read_host_name();
  start_clock();
  read_detail();
  if (!read_redaction()) return false;
  if (!make_root_context(g.environment.managed)) return false;
  g.journal_uid = journal_user();
  begin_process();
  if (!adopt_process()) begin_process();
  if (pthread_key_create(&g_thread_key, thread_ends) != 0) return false;
  register_fork_handlers();
  return true;
}

// In a forked child the Threads of its parent are free. That of the thread that forked is so in the child's children: a
// call that a handler has interrupted to fork may return here, and uses it.
void free_parents_threads(const Thread *forked) {
  for (Thread *t = g_session.threads; t; t = t->next_thread) {
    t->segment = nullptr;
    t->begin = t->next = t->limit = t->captured_to = nullptr;
    forget_waits(t);
    if (t != forked) t->accounts = 0;
    t->in_use.store(t == forked, std::memory_order_relaxed);
  }
}

// Where a process begins, it needs some 20 KiB of stack, and may have 16. One thread at a time is here: the one that
// starts the session (State::kStarting), or the only one of a forked child. A handler may run on it, too.
alignas(16) char g_stack[64 * 1024];

void on_own_stack(void (*function)(void *), void *argument) {
  call_on_stack(function, argument, g_stack + sizeof g_stack);
}

// In a forked child. The segments of its parent's threads are not mapped here.
void become_child(const Thread *forked) {
  Session &g = g_session;
  own_memory::begin_child();
  g_threads_made.store(0, std::memory_order_relaxed);
  free_parents_threads(forked);
  t_sharers = nullptr;
  if (g.first_segment) {
    if (g.ancestor) own_memory::release(g.ancestor, kSegmentHeaderBytes);
    g.ancestor = g.first_segment;
    g.first_segment = nullptr;
  }
  forget_scratch();
  forget_sealer();
  if (g.end_exposures) g.end_exposures();
  begin_process();
  if (!g_wiped.by_libc) inherit_libraries(false);
  begin_child_ledger();
  forget_ended_threads();
  // The program may have overwritten argv by now; exe, cwd and parent are the child's own.
  long bytes_read = describe_process(g_argv);
  g_wiped.alive.store(1, std::memory_order_release);
  count_own(bytes_read, 0);
}

Thread *free_thread() {
  for (Thread *t = g_session.threads; t; t = t->next_thread) {
    if (!t->in_use.load(std::memory_order_acquire)) return t;
  }
  return new_thread();
}

// Adds to what the start event tells that the process has no journal, and why.
void describe_missing_journal() {
  Session &g = g_session;
  Writer w(g.process_members + g.process_members_bytes, sizeof g.process_members - g.process_members_bytes);
  string_view stem(g.journal_stem);
  size_t file = stem.rfind('/');
  const string_view directory = slice(stem, 0, file == string_view::npos ? 0 : file);
  w << ",\"no_journal\":{\"dir\":\"";
  g.hasher.write_path(w, directory, false, put_json_part);
  w << '"';
  (w << ",\"errno\":").number(g.journal_error);
  w << '}';
  if (!w.overflowed()) g.process_members_bytes += w.size();
}

Thread *begin_thread() {
  Thread *t;
  bool first;
  {
    sys::SignalsBlocked signals;
    bool continues;
    {
      Locked lock(g_wiped.table);
      t = free_thread();
      if (!t) return nullptr;
      t->in_use.store(1, std::memory_order_relaxed);
      t->tid = static_cast<uint32_t>(sys::gettid());
      t->handle = pthread_self();
      t->began_ticks = t_thread_began ? t_thread_began : now_ticks();
      t->retry_events = 0;
      t->paths_taken = 0;
      t_thread = t;
      continues = t->segment != nullptr;
      if (!continues) open_segment(t);
      first = g_session.process_members_bytes && !g_session.start_recorded;
      g_session.start_recorded = g_session.start_recorded || first;
    }
    // Not under the table lock, since it may seal and the sealing lock comes first.
    if (continues) note_thread(t);
  }
  if (g_thread_key < kInlineKeys) watch_thread_end();
  if (first) record_start(t);
  return t;
}

}  // namespace

void record_start(Thread *t) {
  sys::SignalsBlocked signals;
  bool missing = !t->segment && !g_session.first_segment;
  if (missing) describe_missing_journal();
  MemorySegment memory(t);
  record_process_start(t);
}

Thread *new_thread() {
  auto *t = static_cast<Thread *>(arena_allocate(sizeof(Thread)));
  if (!t) return nullptr;
  t->paths = static_cast<char *>(arena_allocate(kPathBytes * kPathBuffersPerThread));
  t->next_thread = g_session.threads;
  g_session.threads = t;
  return t;
}

Thread *take_thread() {
  Thread *t = free_thread();
  if (!t) return nullptr;
  t->in_use.store(1, std::memory_order_relaxed);
  t->tid = 0;
  t->handle = 0;
  t->began_ticks = now_ticks();
  t->retry_events = 0;
  t->paths_taken = 0;
  if (!t->segment) open_segment(t);
  return t;
}

void watch_thread_end() {
  if (g_session.state.load(std::memory_order_acquire) != State::kOn) return;
  if (!pthread_getspecific(g_thread_key)) pthread_setspecific(g_thread_key, reinterpret_cast<void *>(uintptr_t{1}));
}

// Of a process that a vfork child has forked: the memory is its own.
static bool is_forked_by_vfork_child() {
  const VforkState &state = vfork_state();
  return state.depth && !state.confined && !t_confined &&
         g_session.state.load(std::memory_order_acquire) == State::kOn &&
         !g_wiped.alive.load(std::memory_order_acquire);
}

Thread *enter_slowly() {
  if (is_forked_by_vfork_child()) vfork_state().depth = 0;
  const VforkState &vforked = vfork_state();
  if (vforked.depth && vforked.before) vforked.before->beside_ticks = now_ticks();
  if (vforked.depth || t_confined) return nullptr;
  State state = g_session.state.load(std::memory_order_acquire);
  if (state != State::kOn) {
    if (state != State::kNew) return nullptr;
    start_session(nullptr);
    if (g_session.state.load(std::memory_order_acquire) != State::kOn) return nullptr;
  }
  if (!g_wiped.alive.load(std::memory_order_acquire)) {
    sys::SignalsBlocked signals;
    const Thread *forked = t_thread;
    t_thread = nullptr;
    t_thread_began = 0;
    on_own_stack([](void *thread) { become_child(static_cast<const Thread *>(thread)); }, const_cast<Thread *>(forked));
  }
  if (t_thread) return t_thread;
  if (t_sharers) return thread_of_sharer();
  // What begins a thread may come back here.
  static __thread bool t_beginning;
  if (t_beginning) return nullptr;
  t_beginning = true;
  Thread *t = begin_thread();
  t_beginning = false;
  return t;
}

// Where the kernel put the program's arguments: at the stack's end, their number before them, the environment behind
// (System V ABI, "Process Initialization"). For sessions that start before our constructor, which is passed them:
// another library's constructor may do I/O first. In a static program __libc_stack_end is somewhat below the number.
static char **find_arguments() {
  auto *end = static_cast<char **>(__libc_stack_end);
  if (!end) return nullptr;
  long count = reinterpret_cast<long>(*end);
  if (count > 0 && count < (1 << 22) && !end[1 + count]) return end + 1;
  if (environ <= end || environ[-1]) return nullptr;
  long n = 0;
  for (char **at = environ - 2; at >= end; --at, ++n) {
    if (reinterpret_cast<long>(*at) == n) return n > 0 ? at + 1 : nullptr;
  }
  return nullptr;
}

// False where the process begins under a seccomp filter that no traced process has set: a static program did, or a raw
// system call. Its effect on the core's system calls is unknown, so until then only such are made as the dynamic linker
// has made before. Without a number of filters in TAILRACE_PROCESS (other managers than the launcher) it is true.
static bool may_start(const ThreadStatus &status) {
  Session &g = g_session;
  Identity given(g.environment[Setting::TAILRACE_PROCESS]);
  if (given.has_start && status.filters > static_cast<long>(given.filters)) return false;
  g.filters.store(status.filters > 0 ? static_cast<uint32_t>(status.filters) : 0, std::memory_order_relaxed);
  return true;
}

// Whether this program is followed from outside (core/launcher/follower.h): then nothing is recorded from inside.
static bool is_followed(const ThreadStatus &status) {
  if (status.tracer <= 0) return false;
  char text[32];
  Writer path(text, sizeof text);
  path << "/proc/";
  path.number(status.tracer) << "/comm";
  const int fd = sys::open(path.c_str(), O_RDONLY);
  if (fd < 0) return false;
  char name[32];
  const long n = sys::read(fd, name, sizeof name);
  sys::close(fd);
  return n > 0 && starts_with({name, static_cast<size_t>(n)}, kFollowerName);
}

bool has_more_rights_than_its_caller() { return getauxval(AT_SECURE) != 0; }

static void begin_session(char **argv) {
  bool wanted = read_environment(environ, g_session.environment);
#ifdef TAILRACE_SANITIZED
  string_view reports = g_session.environment[Setting::TAILRACE_SANITIZER_REPORTS];
  if (wanted && !reports.empty()) tailrace_report_to(reports.data());
#endif
  long bytes_read = 0;
  const ThreadStatus status = wanted ? read_thread_status(bytes_read) : ThreadStatus{};
  const bool may = wanted && may_start(status), is_passive = may && is_followed(status);
  if (!may || is_passive) {
    // What a followed program starts with its environment has the library, and is let go.
    if (wanted && !is_passive && !g_session.environment.is_exposed()) hide_settings(environ);
    g_session.state.store(State::kOff, std::memory_order_release);
    return;
  }
  g_argv = argv ? argv : find_arguments();
  remember_root();
  // It may execute a program, which would inherit blocked signals.
  start_container(g_argv, g_session.filters.load(std::memory_order_relaxed), journal_user());
  sys::SignalsBlocked signals;
  if (!prepare()) {
    g_session.state.store(State::kOff, std::memory_order_release);
    return;
  }
  describe_process(g_argv);  // the ledger begins now, so its base includes what this reads
  // A program of Go with libc starts others by the environment that it was given, and without any hook.
  if (g_session.environment.is_exposed() || is_go_program())
    hide_identity(environ);
  else
    hide_settings(environ);
  begin_ledger(g_session.ledger != nullptr);
  g_wiped.alive.store(1, std::memory_order_release);
  g_session.state.store(State::kOn, std::memory_order_release);
}

void start_session(char **argv, State from) {
  State expected = from;
  if (!g_session.state.compare_exchange_strong(expected, State::kStarting)) {
    if (argv && !g_argv) g_argv = argv;
    return;
  }
  // Who starts a program that has more rights than he has (ld.so(8), secure-execution mode) chooses its environment.
  if (has_more_rights_than_its_caller()) {
    g_session.state.store(State::kOff, std::memory_order_release);
    return;
  }
  on_own_stack([](void *given) { begin_session(static_cast<char **>(given)); }, argv);
}

namespace {
struct LeftPages {
  void *at;
  size_t bytes;
};
__thread LeftPages t_taken_by_child[2];
}  // namespace

void give_back_childs_pages() {
  for (LeftPages &left : t_taken_by_child) {
    if (left.at) own_memory::release(left.at, left.bytes);
    left.at = nullptr;
  }
}

void *take_pages_to_execute(size_t bytes) {
  LeftPages *place = nullptr;
  for (LeftPages &left : t_taken_by_child) {
    if (!left.at) place = &left;
  }
  const bool is_childs = is_vfork_child();
  if (is_childs && !place) return nullptr;
  void *pages = own_memory::pages(bytes);
  if (is_childs) *place = {pages, bytes};
  return pages;
}

void give_back_pages(void *pages, size_t bytes) {
  for (LeftPages &left : t_taken_by_child) {
    if (left.at == pages) left.at = nullptr;
  }
  own_memory::release(pages, bytes);
}

void stop_tracing() {
  g_session.state.store(State::kOff, std::memory_order_release);
  // Makes every thread take the slow path of enter(), which returns null from now on.
  g_wiped.alive.store(0, std::memory_order_release);
  t_thread = nullptr;
}

void release_thread(Thread *t) {
  if (is_recording()) {
    settle_library();
    release_function_calls();
    // Of calls that were cancelled.
    t->accounts = 0;
    t->captured_to = nullptr;
    t_thread = nullptr;
    t->in_use.store(0, std::memory_order_release);
  }
  t_thread = nullptr;
}

void write_process_identity(Writer &out, bool same) {
  const Session &g = g_session;
  out.number(g.filters.load(std::memory_order_relaxed)) << ':';
  out.number(g.journal_uid);
  // A thread that could make no segment goes on in the process's first one.
  const SegmentHeader *mine = t_thread && t_thread->segment ? t_thread->segment : g.first_segment;
  if (!same || is_vfork_child() || !t_thread || !mine) return;
  out << ':';
  out.number(g.pid) << ':';
  out.number(static_cast<int64_t>(g.start_realtime_ns)) << ':';
  out.number(g.segment_count.load(std::memory_order_relaxed)) << ':';
  out.number(mine->segment);
}

namespace {
// Used by the forking thread only, which blocks all signals before it writes them.
uint64_t g_mask_before_fork;
bool g_held_for_fork;

}  // namespace

void hold_for_fork() {
  if (g_session.state.load(std::memory_order_acquire) != State::kOn) return;
  uint64_t all = ~0ULL, saved = 0;
  sys::call(SYS_rt_sigprocmask, SIG_SETMASK, sys::pointer(&all), sys::pointer(&saved), sizeof saved);
  g_wiped.sealing.lock();
  g_wiped.table.lock();
  g_mask_before_fork = saved;
  g_held_for_fork = true;
}

void let_go_in_parent() {
  if (!g_held_for_fork) return;
  g_held_for_fork = false;
  uint64_t saved = g_mask_before_fork;
  g_wiped.table.unlock();
  g_wiped.sealing.unlock();
  sys::call(SYS_rt_sigprocmask, SIG_SETMASK, sys::pointer(&saved), 0, sizeof saved);
}

static void let_go_in_child_of(bool by_libc) {
  if (!g_held_for_fork) return;
  g_held_for_fork = false;
  uint64_t saved = g_mask_before_fork;
  new (&g_wiped) WipedOnFork{};
  g_wiped.by_libc = by_libc;
  if (by_libc) inherit_libraries(true);
  sys::call(SYS_rt_sigprocmask, SIG_SETMASK, sys::pointer(&saved), 0, sizeof saved);
}

void let_go_in_child() { let_go_in_child_of(false); }

static void let_go_in_child_of_libc() { let_go_in_child_of(true); }

void register_fork_handlers() {
  static std::atomic<bool> registered;
  if (!registered.exchange(true)) pthread_atfork(hold_for_fork, let_go_in_parent, let_go_in_child_of_libc);
}

}  // namespace tailrace
