// Hooks: the kernel's own asynchronous requests (io_submit(2)), by libaio's functions or by number. As with those of
// POSIX, the bytes are in the event of the result, "io_getevents"; results that the program never takes are not
// counted.
//
// Invariants:
// - A program may free a request as soon as it is made, so what a record needs is copied before.
// - A request is read only through the kernel, which answers a bad pointer with an error.
#include <linux/aio_abi.h>
#include <sys/syscall.h>
#include <sys/uio.h>

#include "base/sys.h"
#include "hooks/hook_records.h"
#include "linker/real.h"
#include "session/write_place.h"

using namespace tailrace;

// libaio's functions return -errno and do not set errno.
extern "C" {
extern void *__libc_stack_end;
int io_submit(aio_context_t, long, struct iocb **);
int io_getevents(aio_context_t, long, long, struct io_event *, struct timespec *);
int io_pgetevents(aio_context_t, long, long, struct io_event *, struct timespec *, void *);
}

namespace {

struct Request {
  std::atomic<uint64_t> id{0};  // its address; 0 while free
  OpenFile *file = nullptr;
  uint64_t hash = 0;
  int64_t offset = 0;
  uint64_t bytes = 0;
  Fn fn{};
  int fd = 0;
  WritePlace place;
};
constexpr size_t kRequests = 4096, kProbes = 16;
Request g_requests[kRequests];

Request *slot_for(uint64_t id, size_t probe) { return &g_requests[((id >> 4) * 2654435761u + probe) % kRequests]; }

Request *find_request(uint64_t id) {
  for (size_t i = 0; i < kProbes; ++i) {
    Request *r = slot_for(id, i);
    if (r->id.load(std::memory_order_acquire) == id) return r;
  }
  return nullptr;
}

// With too many pending requests the result's file is unknown.
void keep(const Call &call, uint64_t id, const struct iocb &request) {
  bool reads = request.aio_lio_opcode == IOCB_CMD_PREAD || request.aio_lio_opcode == IOCB_CMD_PREADV;
  bool writes = request.aio_lio_opcode == IOCB_CMD_PWRITE || request.aio_lio_opcode == IOCB_CMD_PWRITEV;
  if (!reads && !writes) return;
  Request *r = find_request(id);
  constexpr uint64_t kTaking = 1;
  for (size_t i = 0; !r && i < kProbes; ++i) {
    uint64_t free = 0;
    Request *candidate = slot_for(id, i);
    if (candidate->id.compare_exchange_strong(free, kTaking, std::memory_order_relaxed)) r = candidate;
  }
  if (!r) return;
  r->fd = static_cast<int>(request.aio_fildes);
  r->file = file_of(r->fd);
  r->hash = r->file ? r->file->hash.load(std::memory_order_relaxed) : 0;
  r->offset = request.aio_offset;
  // A vectored request gives the number of its parts, not their bytes.
  bool vector = request.aio_lio_opcode == IOCB_CMD_PREADV || request.aio_lio_opcode == IOCB_CMD_PWRITEV;
  r->bytes = vector ? kNoCount : request.aio_nbytes;
  r->fn = reads ? Fn::kIoRead : Fn::kIoWritten;
  const int64_t at = r->offset < 0 ? kNowhere : r->offset;
  r->place = writes ? WritePlace(call, r->fd, at, static_cast<int>(request.aio_rw_flags), true) : WritePlace();
  r->id.store(id, std::memory_order_release);
}

}  // namespace

bool tailrace::copy_if_readable(void *to, const struct iovec *from, size_t parts, size_t bytes) {
  struct iovec whole = {to, bytes};
  long got = sys::call(SYS_process_vm_readv, sys::getpid(), sys::pointer(&whole), 1, sys::pointer(from),
                       static_cast<long>(parts), 0);
  return got == static_cast<long>(bytes);
}

// The first stack ends where the program's arguments are, any other at the thread's descriptor.
bool tailrace::is_on_callers_stack(const void *memory, size_t bytes) {
  constexpr uintptr_t kNear = 64 * 1024;
  const auto here = reinterpret_cast<uintptr_t>(__builtin_frame_address(0)), at = reinterpret_cast<uintptr_t>(memory);
  const auto thread = reinterpret_cast<uintptr_t>(__builtin_thread_pointer());
  const uintptr_t end = thread > here ? thread : reinterpret_cast<uintptr_t>(__libc_stack_end);
  return at > here && at - here < kNear && at < end && end - at > bytes;
}

void tailrace::expect_requests(const Call &call, long count, struct iocb **list) {
  constexpr long kAtOnce = 16;
  for (long done = 0; done < count; done += kAtOnce) {
    auto n = static_cast<size_t>(count - done < kAtOnce ? count - done : kAtOnce);
    struct iocb *pointers[kAtOnce];
    struct iovec where = {list + done, n * sizeof *pointers}, each[kAtOnce];
    struct iocb requests[kAtOnce];
    if (!copy_if_readable(pointers, &where, 1, where.iov_len)) return;
    for (size_t i = 0; i < n; ++i) each[i] = {pointers[i], sizeof requests[i]};
    if (!copy_if_readable(requests, each, n, n * sizeof *requests)) return;
    for (size_t i = 0; i < n; ++i) keep(call, reinterpret_cast<uint64_t>(pointers[i]), requests[i]);
  }
}

static __thread uint32_t t_submits;

void tailrace::record_submit(const Call &call, long result) {
  ++t_submits;
  Event e;
  e.fn = Fn::f_io_submit;
  e.ret = result;
  record_path(call, e, nullptr);
}

void tailrace::record_results(const Call &call, const struct io_event *results, long count) {
  if (!call || !enter()) return;
  int saved = errno;
  for (long i = 0; i < count; ++i) {
    Request *r = find_request(results[i].obj);
    if (!r) continue;
    Event e{r->fn, r->hash, 0, r->offset, r->bytes, results[i].res};
    OpenFile *file = r->file;
    if (r->fn == Fn::kIoWritten && file && results[i].res > 0 && known_file_of(r->fd) == file) {
      e.offset = r->place.after(file, r->fd, results[i].res);
    }
    r->id.store(0, std::memory_order_release);
    record_file(call, e, file);
  }
  errno = saved;
}

namespace {

// Where the library that the program calls can't be found by name, because it was opened for one plugin only, its
// functions are replaced: each is just a system call.
template <class Real, class Raw>
int call_library(Fn fn, Real &&real, Raw &&raw) {
  void *address = find_real(fn);
  return address ? real(address) : static_cast<int>(raw());
}

#define LIBRARY_CALL(symbol, number, ...)                                                                   \
  call_library(                                                                                             \
      Fn::f_##symbol, [&](void *real) { return reinterpret_cast<decltype(&::symbol)>(real)(__VA_ARGS__); }, \
      [&] { return raw_call(number, __VA_ARGS__); })

template <class T>
long word(T value) {
  return (long)value;
}
template <class... Arguments>
long raw_call(long number, Arguments... arguments) {
  return sys::call(number, word(arguments)...);
}

}  // namespace

TAILRACE_HOOK int io_submit(aio_context_t context, long n, struct iocb **list) {
  Call call;
  if (call) expect_requests(call, n, list);
  uint32_t before = t_submits;
  int ret = LIBRARY_CALL(io_submit, SYS_io_submit, context, n, list);
  // The library's function may call syscall, which is a hook.
  if (t_submits == before) record_submit(call, ret);
  return ret;
}

TAILRACE_HOOK int io_getevents(aio_context_t context, long least, long n, struct io_event *results,
                               struct timespec *patience) {
  Call call;
  int ret = LIBRARY_CALL(io_getevents, SYS_io_getevents, context, least, n, results, patience);
  record_results(call, results, ret);
  return ret;
}

// The kernel takes the mask together with its size.
TAILRACE_HOOK int io_pgetevents(aio_context_t context, long least, long n, struct io_event *results,
                                struct timespec *patience, void *mask) {
  Call call;
  struct {
    void *mask;
    size_t bytes;
  } with_size = {mask, 8};
  int ret = call_library(
      Fn::f_io_pgetevents,
      [&](void *real) {
        return reinterpret_cast<decltype(&::io_pgetevents)>(real)(context, least, n, results, patience, mask);
      },
      [&] { return raw_call(SYS_io_pgetevents, context, least, n, results, patience, &with_size); });
  record_results(call, results, ret);
  return ret;
}
