// Hooks: io_uring by the exported functions of liburing. The parts of that library that prepare requests and take
// results are inlined into the program. The exported functions are enough: every submission calls one, requests are in
// the ring until then, and results stay in theirs until it has wrapped around once.
//
// Invariants:
// - A ring is read only after the kernel has validated its addresses, since its layout is the library's.
// - A ring of unknown layout, or one that the program uses by system calls, is reported as unseen.
#include <type_traits>

#include "hooks/hook_records.h"
#include "hooks/rings.h"
#include "linker/real.h"
#include "session/ledger.h"

using namespace tailrace;
using namespace tailrace::rings;

struct __kernel_timespec;
struct io_uring_params;

extern "C" {
int io_uring_queue_init(unsigned, Ring *, unsigned);
int io_uring_queue_init_params(unsigned, Ring *, io_uring_params *);
int io_uring_queue_init_mem(unsigned, Ring *, io_uring_params *, void *, size_t);
void io_uring_queue_exit(Ring *);
int io_uring_submit(Ring *);
int io_uring_submit_and_wait(Ring *, unsigned);
int io_uring_submit_and_wait_timeout(Ring *, Result **, unsigned, __kernel_timespec *, void *);
int io_uring_submit_and_wait_min_timeout(Ring *, Result **, unsigned, __kernel_timespec *, unsigned, void *);
int io_uring_submit_and_get_events(Ring *);
int io_uring_get_events(Ring *);
int __io_uring_get_cqe(Ring *, Result **, unsigned, unsigned, void *);
int io_uring_wait_cqes(Ring *, Result **, unsigned, __kernel_timespec *, void *);
int io_uring_wait_cqes_min_timeout(Ring *, Result **, unsigned, __kernel_timespec *, unsigned, void *);
int io_uring_wait_cqe_timeout(Ring *, Result **, __kernel_timespec *);
unsigned io_uring_peek_batch_cqe(Ring *, Result **, unsigned);
int io_uring_register_files(Ring *, const int *, unsigned);
int io_uring_register_files_tags(Ring *, const int *, const uint64_t *, unsigned);
int io_uring_register_files_sparse(Ring *, unsigned);
int io_uring_register_files_update(Ring *, unsigned, const int *, unsigned);
int io_uring_register_files_update_tag(Ring *, unsigned, const int *, const uint64_t *, unsigned);
int io_uring_unregister_files(Ring *);
int io_uring_setup(unsigned, io_uring_params *);
}

namespace {

// The library calls itself by its public names; only calls of the program are recorded.
__thread uint32_t t_depth;
class Outermost {
 public:
  Outermost() : first_(t_depth++ == 0) {}
  ~Outermost() { --t_depth; }
  Outermost(const Outermost &) = delete;
  Outermost &operator=(const Outermost &) = delete;
  explicit operator bool() const { return first_; }

 private:
  bool first_;
};

// The library's functions return -errno.
template <class Function, class... Arguments>
auto call_real(Fn fn, void *caller, Function *, Arguments... arguments) {
  using Returned = decltype(static_cast<Function *>(nullptr)(arguments...));
  void *real = find_real_for(fn, caller);
  if constexpr (std::is_void_v<Returned>) {
    if (real) reinterpret_cast<Function *>(real)(arguments...);
  } else {
    return real ? reinterpret_cast<Function *>(real)(arguments...) : static_cast<Returned>(-ENOSYS);
  }
}
#define CALL_REAL(symbol, ...) call_real(Fn::f_##symbol, __builtin_return_address(0), &::symbol, __VA_ARGS__)

class PreservedErrno {
 public:
  ~PreservedErrno() { errno = saved_; }

 private:
  int saved_ = errno;
};

void begin_ring(const Call &call, Fn fn, Ring *ring, int result) {
  if (!call) return;
  PreservedErrno preserved;
  errno = result < 0 ? -result : 0;
  int fd = result < 0 ? -1 : begin(ring);
  if (result < 0 || fd >= 0)
    record_made(call, fn, fd);
  else
    record_plain(call, fn, result);
}

}  // namespace

#define INIT_HOOK(symbol, parameters, ...)                 \
  TAILRACE_HOOK int symbol parameters {                    \
    Outermost outermost;                                   \
    if (!outermost) return CALL_REAL(symbol, __VA_ARGS__); \
    Call call;                                             \
    int result = CALL_REAL(symbol, __VA_ARGS__);           \
    begin_ring(call, Fn::f_##symbol, ring, result);        \
    return result;                                         \
  }
INIT_HOOK(io_uring_queue_init, (unsigned n, Ring *ring, unsigned flags), n, ring, flags)
INIT_HOOK(io_uring_queue_init_params, (unsigned n, Ring *ring, io_uring_params *p), n, ring, p)
INIT_HOOK(io_uring_queue_init_mem, (unsigned n, Ring *ring, io_uring_params *p, void *memory, size_t bytes), n, ring, p,
          memory, bytes)

TAILRACE_HOOK void io_uring_queue_exit(Ring *ring) {
  Outermost outermost;
  Call call;
  int fd = -1;
  if (call && outermost) {
    PreservedErrno preserved;
    fd = end(call, ring);
  }
  Closing closing(call, fd);
  CALL_REAL(io_uring_queue_exit, ring);
  if (call && outermost) closing.record(call, Fn::f_io_uring_queue_exit, 0);
}

// Calls that submit, and that have an event of their own.
#define SUBMIT_HOOK(symbol, parameters, ...)                        \
  TAILRACE_HOOK int symbol parameters {                             \
    Outermost outermost;                                            \
    Call call;                                                      \
    if (!outermost || !call) return CALL_REAL(symbol, __VA_ARGS__); \
    expect(call, ring);                                             \
    int result = CALL_REAL(symbol, __VA_ARGS__);                    \
    PreservedErrno preserved;                                       \
    Event e;                                                        \
    e.fn = Fn::f_##symbol;                                          \
    e.ret = result;                                                 \
    record_path(call, e, nullptr);                                  \
    if (call) collect(call, ring);                                  \
    return result;                                                  \
  }
SUBMIT_HOOK(io_uring_submit, (Ring * ring), ring)
SUBMIT_HOOK(io_uring_submit_and_wait, (Ring * ring, unsigned n), ring, n)
SUBMIT_HOOK(io_uring_submit_and_get_events, (Ring * ring), ring)
SUBMIT_HOOK(io_uring_submit_and_wait_timeout,
            (Ring * ring, Result **out, unsigned n, __kernel_timespec *time, void *mask), ring, out, n, time, mask)
SUBMIT_HOOK(io_uring_submit_and_wait_min_timeout,
            (Ring * ring, Result **out, unsigned n, __kernel_timespec *time, unsigned least, void *mask), ring, out, n,
            time, least, mask)

// Calls that take results, and may also submit.
#define TAKE_HOOK(type, symbol, submits, parameters, ...)           \
  TAILRACE_HOOK type symbol parameters {                            \
    Outermost outermost;                                            \
    Call call;                                                      \
    if (!outermost || !call) return CALL_REAL(symbol, __VA_ARGS__); \
    if (submits) expect(call, ring);                                \
    type result = CALL_REAL(symbol, __VA_ARGS__);                   \
    PreservedErrno preserved;                                       \
    if (call) collect(call, ring);                                  \
    return result;                                                  \
  }
TAKE_HOOK(int, io_uring_get_events, false, (Ring * ring), ring)
TAKE_HOOK(int, __io_uring_get_cqe, submit > 0, (Ring * ring, Result **out, unsigned submit, unsigned n, void *mask),
          ring, out, submit, n, mask)
TAKE_HOOK(int, io_uring_wait_cqes, true, (Ring * ring, Result **out, unsigned n, __kernel_timespec *time, void *mask),
          ring, out, n, time, mask)
TAKE_HOOK(int, io_uring_wait_cqes_min_timeout, true,
          (Ring * ring, Result **out, unsigned n, __kernel_timespec *time, unsigned least, void *mask), ring, out, n,
          time, least, mask)
TAKE_HOOK(int, io_uring_wait_cqe_timeout, true, (Ring * ring, Result **out, __kernel_timespec *time), ring, out, time)
TAKE_HOOK(unsigned, io_uring_peek_batch_cqe, false, (Ring * ring, Result **out, unsigned n), ring, out, n)

// The list of registered files, which requests name by index. `change`: its update after a successful call.
#define FILES_HOOK(symbol, parameters, change, ...) \
  TAILRACE_HOOK int symbol parameters {             \
    Outermost outermost;                            \
    Call call;                                      \
    int result = CALL_REAL(symbol, __VA_ARGS__);    \
    if (outermost && call && result >= 0) {         \
      PreservedErrno preserved;                     \
      change;                                       \
      record_plain(call, Fn::f_##symbol, result);   \
    }                                               \
    return result;                                  \
  }
FILES_HOOK(io_uring_register_files, (Ring * ring, const int *files, unsigned n), set_files(ring, files, n), ring, files,
           n)
FILES_HOOK(io_uring_register_files_tags, (Ring * ring, const int *files, const uint64_t *tags, unsigned n),
           set_files(ring, files, n), ring, files, tags, n)
FILES_HOOK(io_uring_register_files_sparse, (Ring * ring, unsigned n), set_files(ring, nullptr, n), ring, n)
FILES_HOOK(io_uring_register_files_update, (Ring * ring, unsigned at, const int *files, unsigned n),
           change_files(ring, at, files, n), ring, at, files, n)
FILES_HOOK(io_uring_register_files_update_tag,
           (Ring * ring, unsigned at, const int *files, const uint64_t *tags, unsigned n),
           change_files(ring, at, files, n), ring, at, files, tags, n)
FILES_HOOK(io_uring_unregister_files, (Ring * ring), set_files(ring, nullptr, 0), ring)

void tailrace::record_ring_setup(const Call &call, long fd) {
  // Older libraries make their rings by syscall(2), which is a hook.
  if (t_depth == 0 && fd >= 0) count_unseen_ring();
  if (t_depth == 0) record_made(call, Fn::f_io_uring_setup, static_cast<int>(fd));
}

TAILRACE_HOOK int io_uring_setup(unsigned n, io_uring_params *p) {
  Call call;
  int fd = CALL_REAL(io_uring_setup, n, p);
  PreservedErrno preserved;
  if (fd < 0) errno = -fd;
  record_ring_setup(call, fd < 0 ? -1 : fd);
  return fd;
}
