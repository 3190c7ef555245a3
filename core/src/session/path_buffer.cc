// See session/path_buffer.h.
#include "session/path_buffer.h"

#include "base/sys.h"
#include "session/session.h"

namespace tailrace {
namespace {
// When not even two pages are to be had. What two threads write here at once is garbage, but harms nobody.
char g_last_resort[kPathBytes];
constexpr size_t kOwnPages = 8192;
}  // namespace

PathBuffer::PathBuffer() : thread_(t_thread) {
  if (thread_ && thread_->paths && thread_->paths_taken < kPathBuffersPerThread) {
    data_ = thread_->paths + kPathBytes * thread_->paths_taken++;
    return;
  }
  thread_ = nullptr;
  // Where nothing is recorded nothing will be written here either, and the kernel may not be asked (hooks/seccomp.h).
  bool recording = g_session.state.load(std::memory_order_relaxed) == State::kOn && !t_vfork && !t_confined;
  if (!recording) {
    data_ = g_last_resort;
    return;
  }
  auto *pages = static_cast<char *>(sys::allocate_pages(kOwnPages));
  data_ = pages ? pages : g_last_resort;
}

PathBuffer::~PathBuffer() {
  if (thread_) {
    --thread_->paths_taken;
  } else if (data_ != g_last_resort) {
    sys::munmap(data_, kOwnPages);
  }
}

}  // namespace tailrace
