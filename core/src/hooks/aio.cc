// Hooks: POSIX asynchronous I/O. A request is an event without bytes; the bytes are in an event "aio_return", made when
// the program first learns that the request is over: by aio_return, aio_error, aio_suspend, aio_cancel or a waiting
// lio_listio, or does not care: when it uses the request's memory again, executes a program, or ends.
//
// Invariants: a request has one result. A result is read from the request's memory, which is the program's again once
// the request is over: where nobody asked before, it counts only if the request still is what it was. What is not known
// then is counted (count_untaken).
#include <aio.h>

#include <atomic>

#include "base/checked_memory.h"
#include "hooks/hook_records.h"
#include "linker/real.h"
#include "session/ledger.h"
#include "session/write_place.h"

using namespace tailrace;

namespace {

// aiocb64 is the same.
using Request = struct aiocb;

// A request whose result the program has not taken yet. Its descriptor may be closed meanwhile, and the number used
// again.
struct Pending {
  std::atomic<const void *> request{nullptr};  // null: free
  int pid = 0;                                 // a forked child has a copy
  int fd = 0, operation = 0;                   // LIO_READ, LIO_WRITE; LIO_NOP: aio_fsync
  OpenFile *file = nullptr;
  uint64_t hash = 0;
  int64_t offset = 0;
  uint64_t bytes = 0;
  WritePlace place;  // of a write
};
constexpr size_t kPending = 1024, kProbes = 16;
Pending g_pending[kPending];
std::atomic<bool> g_any{false};
const char g_filling = 0;  // its address: an entry that is being made

// libc notes the operation in the request, with a bit for the 64-bit forms.
constexpr int kOperation = 127;

Pending &pending_at(const void *request, size_t probe) {
  const size_t begin = (reinterpret_cast<uintptr_t>(request) >> 4) * 2654435761U;
  return g_pending[(begin + probe) % kPending];
}

Pending *find_pending(const void *request) {
  for (size_t i = 0; i < kProbes; ++i) {
    Pending &p = pending_at(request, i);
    if (p.request.load(std::memory_order_acquire) == request) return &p;
  }
  return nullptr;
}

int error_of(const Request &request) { return __atomic_load_n(&request.__error_code, __ATOMIC_ACQUIRE); }

// Whether it was taken by this call: another thread may have been faster.
bool take(Pending &p, const void *request, Pending &out) {
  out.fd = p.fd, out.operation = p.operation, out.file = p.file, out.hash = p.hash;
  out.offset = p.offset, out.bytes = p.bytes, out.pid = p.pid, out.place = p.place;
  const void *expected = request;
  return p.request.compare_exchange_strong(expected, nullptr, std::memory_order_acq_rel);
}

// `ret`: what aio_return returns, or -errno.
void record_result(const Call &call, const Pending &p, int64_t ret) {
  Event e;
  e.fn = p.operation == LIO_READ ? Fn::kAioRead : p.operation == LIO_WRITE ? Fn::kAioWritten : Fn::f_aio_return;
  e.file = p.hash;
  if (e.fn != Fn::f_aio_return) {
    e.offset = p.offset;
    e.count = p.bytes;
  }
  // libc writes by pwrite, which on an appending descriptor appends.
  if (e.fn == Fn::kAioWritten && p.file && p.file->append) {
    const bool is_open = known_file_of(p.fd) == p.file;
    e.offset = is_open ? p.place.after(p.file, p.fd, ret > 0 ? ret : 0) : -1;
  }
  e.ret = ret;
  record_file(call, e, p.file);
}

int64_t result_in(const Request &request) {
  const int error = error_of(request);
  return error ? -error : static_cast<int64_t>(request.__return_value);
}

// The program has asked for it, so it is what libc has written.
void take_if_over(const Call &call, const void *address) {
  if (!call || !address || !enter()) return;
  Pending *p = find_pending(address), taken;
  const auto &request = *static_cast<const Request *>(address);
  if (p && error_of(request) != EINPROGRESS && take(*p, address, taken)) record_result(call, taken, result_in(request));
}

// Nobody has asked, and the memory may have another use by now.
void take_unasked(const Call &call, Pending &p, const void *address) {
  Pending taken;
  if (p.pid != g_session.pid || !take(p, address, taken) || taken.operation == LIO_NOP) return;
  Request now;
  const bool is_there = copy_memory(taken.pid, reinterpret_cast<uintptr_t>(address), &now, sizeof now) == sizeof now;
  if (is_there && error_of(now) == EINPROGRESS) return;
  const bool is_same = is_there && now.aio_fildes == taken.fd && now.aio_offset == taken.offset &&
                       now.aio_nbytes == taken.bytes && (now.aio_lio_opcode & kOperation) == taken.operation;
  const int64_t ret = is_same ? result_in(now) : 0;
  const bool is_result = is_same && (ret < 0 || static_cast<uint64_t>(ret) <= taken.bytes);
  is_result ? record_result(call, taken, ret) : count_untaken();
}

// To be called before the request is made: a thread that it notifies may take the result before the call returns.
void expect(const Call &call, const void *address, int fd, int operation) {
  const auto &request = *static_cast<const Request *>(address);
  if (Pending *before = find_pending(address)) {
    // Its fields are the new request's, and what libc had written may have been cleared with them.
    Pending taken;
    if (take(*before, address, taken)) {
      const int64_t ret = result_in(request);
      const bool is_result = ret > 0 && static_cast<uint64_t>(ret) <= taken.bytes;
      if (taken.operation != LIO_NOP) is_result ? record_result(call, taken, ret) : count_untaken();
    }
  }
  for (size_t i = 0; i < kProbes; ++i) {
    Pending &p = pending_at(address, i);
    const void *free = nullptr;
    if (!p.request.compare_exchange_strong(free, &g_filling, std::memory_order_relaxed)) continue;
    p.pid = g_session.pid;
    p.fd = fd;
    p.operation = operation;
    p.file = file_of(fd);
    p.hash = p.file ? p.file->hash.load(std::memory_order_relaxed) : 0;
    p.offset = request.aio_offset;
    p.bytes = request.aio_nbytes;
    const int64_t at = p.offset < 0 ? kNowhere : p.offset;
    p.place = operation == LIO_WRITE ? WritePlace(call, fd, at, 0, true) : WritePlace();
    g_any.store(true, std::memory_order_relaxed);
    p.request.store(address, std::memory_order_release);
    return;
  }
  count_untaken();
}

// The request was not made.
void forget(const void *address) {
  Pending *p = find_pending(address), taken;
  if (p) take(*p, address, taken);
}

}  // namespace

void tailrace::settle_aio() {
  if (!g_any.load(std::memory_order_relaxed)) return;
  Call call;
  for (Pending &p : g_pending) {
    const void *address = p.request.load(std::memory_order_acquire);
    if (address && address != &g_filling) take_unasked(call, p, address);
  }
}

// The request may be freed when the call returns: another thread may have taken the result.
#define REQUEST_HOOK(symbol, request_type, operation)               \
  TAILRACE_HOOK int symbol(struct request_type *request) noexcept { \
    Call call;                                                      \
    int fd = request->aio_fildes;                                   \
    int64_t at = request->aio_offset;                               \
    uint64_t count = request->aio_nbytes;                           \
    if (call) expect(call, request, fd, operation);                 \
    int ret = REAL(symbol)(request);                                \
    if (call && ret < 0) forget(request);                           \
    record_fd(call, Fn::f_##symbol, fd, ret, count, at);            \
    return ret;                                                     \
  }
REQUEST_HOOK(aio_read, aiocb, LIO_READ)
REQUEST_HOOK(aio_read64, aiocb64, LIO_READ)
REQUEST_HOOK(aio_write, aiocb, LIO_WRITE)
REQUEST_HOOK(aio_write64, aiocb64, LIO_WRITE)

#define AIO_FSYNC_HOOK(symbol, request_type)                                       \
  TAILRACE_HOOK int symbol(int operation, struct request_type *request) noexcept { \
    Call call;                                                                     \
    int fd = request->aio_fildes;                                                  \
    if (call) expect(call, request, fd, LIO_NOP);                                  \
    int ret = REAL(symbol)(operation, request);                                    \
    if (call && ret < 0) forget(request);                                          \
    record_fd(call, Fn::f_##symbol, fd, ret);                                      \
    return ret;                                                                    \
  }
AIO_FSYNC_HOOK(aio_fsync, aiocb)
AIO_FSYNC_HOOK(aio_fsync64, aiocb64)

// After the call the result is no more in the request.
#define AIO_RETURN_HOOK(symbol, request_type)                           \
  TAILRACE_HOOK ssize_t symbol(struct request_type *request) noexcept { \
    Call call;                                                          \
    take_if_over(call, request);                                        \
    return REAL(symbol)(request);                                       \
  }
AIO_RETURN_HOOK(aio_return, aiocb)
AIO_RETURN_HOOK(aio_return64, aiocb64)

#define AIO_ERROR_HOOK(symbol, request_type)                              \
  TAILRACE_HOOK int symbol(const struct request_type *request) noexcept { \
    Call call;                                                            \
    int ret = REAL(symbol)(request);                                      \
    if (ret != EINPROGRESS) take_if_over(call, request);                  \
    return ret;                                                           \
  }
AIO_ERROR_HOOK(aio_error, aiocb)
AIO_ERROR_HOOK(aio_error64, aiocb64)

#define AIO_SUSPEND_HOOK(symbol, request_type)                                                            \
  TAILRACE_HOOK int symbol(const struct request_type *const list[], int n, const struct timespec *most) { \
    int ret = REAL(symbol)(list, n, most);                                                                \
    Call call;                                                                                            \
    const int saved = errno;                                                                              \
    for (int i = 0; call && ret == 0 && i < n; ++i) take_if_over(call, list[i]);                          \
    errno = saved;                                                                                        \
    return ret;                                                                                           \
  }
AIO_SUSPEND_HOOK(aio_suspend, aiocb)
AIO_SUSPEND_HOOK(aio_suspend64, aiocb64)

#define AIO_CANCEL_HOOK(symbol, request_type)                               \
  TAILRACE_HOOK int symbol(int fd, struct request_type *request) noexcept { \
    Call call;                                                              \
    int ret = REAL(symbol)(fd, request);                                    \
    if (request && ret >= 0) take_if_over(call, request);                   \
    return ret;                                                             \
  }
AIO_CANCEL_HOOK(aio_cancel, aiocb)
AIO_CANCEL_HOOK(aio_cancel64, aiocb64)

// libc reads the list only when the mode is one of the two.
#define LIO_HOOK(symbol, request_type)                                                                             \
  TAILRACE_HOOK int symbol(int mode, struct request_type *const list[], int n, struct sigevent *notice) noexcept { \
    Call call;                                                                                                     \
    bool valid = mode == LIO_WAIT || mode == LIO_NOWAIT;                                                           \
    for (int i = 0; call && valid && i < n; ++i) {                                                                 \
      if (list[i] && list[i]->aio_lio_opcode != LIO_NOP)                                                           \
        expect(call, list[i], list[i]->aio_fildes, list[i]->aio_lio_opcode &kOperation);                           \
    }                                                                                                              \
    int ret = REAL(symbol)(mode, list, n, notice);                                                                 \
    record_plain(call, Fn::f_##symbol, ret);                                                                       \
    const int saved = errno;                                                                                       \
    for (int i = 0; call && mode == LIO_WAIT && i < n; ++i) take_if_over(call, list[i]);                           \
    errno = saved;                                                                                                 \
    return ret;                                                                                                    \
  }
LIO_HOOK(lio_listio, aiocb)
LIO_HOOK(lio_listio64, aiocb64)
