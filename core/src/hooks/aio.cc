// Hooks: POSIX asynchronous I/O. A request is an event without bytes; the bytes are in the event "aio_return" of the call
// that takes the result. Results that the program never takes are not counted.
#include <aio.h>

#include <atomic>

#include "hooks/hook_records.h"
#include "linker/real.h"
#include "session/write_place.h"

using namespace tailrace;

namespace {

// The files of pending requests: a request's descriptor may be closed, and its number used again, before the result is
// taken. Direct-mapped; a request that another one displaces is recorded without a file.
struct Pending {
  std::atomic<const void *> request;
  OpenFile *file;
  uint64_t hash;
  WritePlace place;
};
constexpr size_t kPending = 1024;
Pending g_pending[kPending];

Pending &pending_of(const void *request) {
  return g_pending[(reinterpret_cast<uintptr_t>(request) >> 4) * 2654435761u % kPending];
}

// To be called before the request is made: a thread that it notifies may take the result before the call returns.
template <class Request>
void expect(const Call &call, const Request *request, bool writes) {
  const int fd = request->aio_fildes;
  OpenFile *file = file_of(fd);
  Pending &p = pending_of(request);
  p.request.store(nullptr, std::memory_order_relaxed);
  p.file = file;
  p.hash = file ? file->hash.load(std::memory_order_relaxed) : 0;
  const int64_t at = request->aio_offset < 0 ? kNowhere : request->aio_offset;
  p.place = writes ? WritePlace(call, fd, at, 0, true) : WritePlace();
  p.request.store(request, std::memory_order_release);
}

// libc notes the operation in the request, with a bit for the 64-bit forms.
constexpr int kOperation = 127;

template <class Request>
void record_result(const Call &call, Fn fn, const Request *request, ssize_t ret) {
  if (!call || !enter()) return;
  Pending &p = pending_of(request);
  const void *expected = request;
  OpenFile *file = nullptr;
  WritePlace place;
  Event e;
  e.fn = fn;
  if (p.request.load(std::memory_order_acquire) == request) {
    file = p.file;
    e.file = p.hash;
    place = p.place;
    p.request.compare_exchange_strong(expected, nullptr, std::memory_order_relaxed);
  }
  int operation = request->aio_lio_opcode & kOperation;
  if (operation == LIO_READ || operation == LIO_WRITE) {
    e.fn = operation == LIO_READ ? Fn::kAioRead : Fn::kAioWritten;
    e.offset = request->aio_offset;
    e.count = request->aio_nbytes;
  }
  // aio_return returns the result as it is in the request, without errno.
  e.ret = ret < 0 ? -static_cast<int64_t>(request->__error_code) : ret;
  // libc writes by pwrite, which on an appending descriptor appends.
  if (e.fn == Fn::kAioWritten && file && file->append) {
    const bool is_open = known_file_of(request->aio_fildes) == file;
    e.offset = is_open ? place.after(file, request->aio_fildes, ret > 0 ? ret : 0) : -1;
  }
  record_file(call, e, file);
}

}  // namespace

// The request may be freed when the call returns: another thread may have taken the result.
#define REQUEST_HOOK(symbol, request_type, writes)                  \
  TAILRACE_HOOK int symbol(struct request_type *request) noexcept { \
    Call call;                                                      \
    int fd = request->aio_fildes;                                   \
    int64_t at = request->aio_offset;                               \
    uint64_t count = request->aio_nbytes;                           \
    if (call) expect(call, request, writes);                        \
    int ret = REAL(symbol)(request);                                \
    record_fd(call, Fn::f_##symbol, fd, ret, count, at);            \
    return ret;                                                     \
  }
REQUEST_HOOK(aio_read, aiocb, false)
REQUEST_HOOK(aio_read64, aiocb64, false)
REQUEST_HOOK(aio_write, aiocb, true)
REQUEST_HOOK(aio_write64, aiocb64, true)

#define AIO_FSYNC_HOOK(symbol, request_type)                                       \
  TAILRACE_HOOK int symbol(int operation, struct request_type *request) noexcept { \
    Call call;                                                                     \
    int fd = request->aio_fildes;                                                  \
    if (call) expect(call, request, false);                                        \
    int ret = REAL(symbol)(operation, request);                                    \
    record_fd(call, Fn::f_##symbol, fd, ret);                                      \
    return ret;                                                                    \
  }
AIO_FSYNC_HOOK(aio_fsync, aiocb)
AIO_FSYNC_HOOK(aio_fsync64, aiocb64)

#define AIO_RETURN_HOOK(symbol, request_type)                           \
  TAILRACE_HOOK ssize_t symbol(struct request_type *request) noexcept { \
    Call call;                                                          \
    ssize_t ret = REAL(symbol)(request);                                \
    record_result(call, Fn::f_##symbol, request, ret);                  \
    return ret;                                                         \
  }
AIO_RETURN_HOOK(aio_return, aiocb)
AIO_RETURN_HOOK(aio_return64, aiocb64)

// libc reads the list only when the mode is one of the two.
#define LIO_HOOK(symbol, request_type)                                                                             \
  TAILRACE_HOOK int symbol(int mode, struct request_type *const list[], int n, struct sigevent *notice) noexcept { \
    Call call;                                                                                                     \
    bool valid = mode == LIO_WAIT || mode == LIO_NOWAIT;                                                           \
    for (int i = 0; call && valid && i < n; ++i) {                                                                 \
      if (!list[i] || list[i]->aio_lio_opcode == LIO_NOP) continue;                                                \
      expect(call, list[i], (list[i]->aio_lio_opcode & kOperation) == LIO_WRITE);                                  \
    }                                                                                                              \
    int ret = REAL(symbol)(mode, list, n, notice);                                                                 \
    record_plain(call, Fn::f_##symbol, ret);                                                                       \
    return ret;                                                                                                    \
  }
LIO_HOOK(lio_listio, aiocb)
LIO_HOOK(lio_listio64, aiocb64)
