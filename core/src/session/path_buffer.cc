// See session/path_buffer.h.
#include "session/path_buffer.h"

#include "base/own_memory.h"
#include "session/session.h"

namespace tailrace {
namespace {
// For when not even two pages can be allocated. Two threads that write to it at once get a wrong name, nothing worse.
char g_last_resort[kPathBytes];
constexpr size_t kOwnPages = 8192;
}  // namespace

PathBuffer::PathBuffer() : PathBuffer(is_vfork_child() ? vfork_state().before : t_thread) {}

PathBuffer::PathBuffer(Thread *thread) : thread_(is_recording() ? thread : nullptr) {
  if (thread_ && thread_->paths && thread_->paths_taken < kPathBuffersPerThread) {
    data_ = thread_->paths + kPathBytes * thread_->paths_taken++;
    return;
  }
  thread_ = nullptr;
  // Where nothing is recorded the buffer stays unused, and system calls may be forbidden (hooks/seccomp.h).
  if (!is_recording() || is_vfork_child() || t_confined) {
    data_ = g_last_resort;
    return;
  }
  auto *pages = static_cast<char *>(own_memory::pages(kOwnPages));
  data_ = pages ? pages : g_last_resort;
}

PathBuffer::~PathBuffer() {
  if (thread_) {
    if (is_recording()) --thread_->paths_taken;
  } else if (data_ != g_last_resort) {
    own_memory::release(data_, kOwnPages);
  }
}

}  // namespace tailrace
