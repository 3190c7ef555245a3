// See layers/cupti.h.
#include "layers/cupti.h"

#include <cupti.h>
#include <dlfcn.h>
#include <link.h>
#include <stdlib.h>

#include <atomic>

#include "base/own_memory.h"
#include "base/sys.h"
#include "format/choices.h"
#include "layers/gpu_activity.h"
#include "layers/layers.h"
#include "linker/lookup.h"
#include "linker/real.h"
#include "session/record.h"

static_assert(CUDA_VERSION >= 12000, "TAILRACE_CUPTI needs the headers of CUDA 12 or later");

namespace tailrace {
namespace {

constexpr const char kVariable[] = "CUDA_INJECTION64_PATH";
// Some 500 records: what CUPTI has not delivered is lost with a process that is killed.
constexpr size_t kBufferBytes = 128 * 1024;
constexpr uint32_t kFlushMs = 1000;
constexpr CUpti_ActivityKind kKinds[] = {CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL, CUPTI_ACTIVITY_KIND_MEMCPY,
                                         CUPTI_ACTIVITY_KIND_MEMCPY2, CUPTI_ACTIVITY_KIND_MEMSET};

// clang-format off
#define CUPTI_FUNCTIONS(F) \
  F(cuptiGetVersion) \
  F(cuptiActivityRegisterTimestampCallback) \
  F(cuptiActivityRegisterCallbacks) \
  F(cuptiActivityEnable) \
  F(cuptiActivityDisable) \
  F(cuptiActivityFlushAll) \
  F(cuptiActivityFlushPeriod) \
  F(cuptiActivityGetNextRecord) \
  F(cuptiActivityGetNumDroppedRecords)
// clang-format on

struct Cupti {
#define MEMBER(name) decltype(&::name) name;
  CUPTI_FUNCTIONS(MEMBER)
#undef MEMBER
};
Cupti g_cupti;
std::atomic<bool> g_begun;
int g_pid;         // of the process that uses CUPTI
ClockMap g_clock;  // of the times that CUPTI is given, and gives

bool look_up(void *library) {
  bool is_whole = true;
#define LOOK_UP(name)                                                             \
  g_cupti.name = reinterpret_cast<decltype(&::name)>(real_dlsym(library, #name)); \
  is_whole = is_whole && g_cupti.name;
  CUPTI_FUNCTIONS(LOOK_UP)
#undef LOOK_UP
  return is_whole;
}

// libcupti has the number of CUDA's major version.
void write_name(Writer &out) { (out << "libcupti.so.").number(CUDA_VERSION / 1000); }

// Where libcudart lies, with the slash behind it.
int find_runtime(dl_phdr_info *info, size_t, void *data) {
  const string_view path = info->dlpi_name ? info->dlpi_name : "";
  const size_t at = path.rfind("/libcudart");
  if (at == string_view::npos) return 0;
  *static_cast<Writer *>(data) << slice(path, 0, at + 1);
  return 1;
}

void *open_library(string_view directory, string_view below, int flags) {
  char path[4096];
  Writer out(path, sizeof path);
  out << directory << below;
  write_name(out);
  return out.overflowed() ? nullptr : dlopen(out.c_str(), flags);
}

// The program's own copy, or that of its CUDA, or any.
void *open_cupti() {
  if (void *loaded = open_library({}, {}, RTLD_NOW | RTLD_NOLOAD)) return loaded;
  char directory[4096];
  Writer runtime(directory, sizeof directory);
  dl_iterate_phdr(find_runtime, &runtime);
  if (runtime.size() && !runtime.overflowed()) {
    for (const char *below : {"", "../extras/CUPTI/lib64/", "../../cuda_cupti/lib/"}) {
      if (void *library = open_library(runtime.view(), below, RTLD_NOW)) return library;
    }
  }
  return open_library({}, {}, RTLD_NOW);
}

uint64_t CUPTIAPI give_time() { return g_clock.to_ns(now_ticks()); }

uint64_t ticks_at(uint64_t ns) {
  if (ns <= g_clock.from_ns) return g_clock.from_ticks;
  return g_clock.from_ticks +
         static_cast<uint64_t>((static_cast<unsigned __int128>(ns - g_clock.from_ns) << 32) / g_clock.rate_q32);
}

// CUPTI's thread has none; the program's, which delivers at exit, may be anywhere.
class UnderTheProcess {
 public:
  UnderTheProcess() : context_(t_context) { t_context = nullptr; }
  ~UnderTheProcess() { t_context = context_; }
  UnderTheProcess(const UnderTheProcess &) = delete;
  UnderTheProcess &operator=(const UnderTheProcess &) = delete;

 private:
  Context *context_;
};

void record(const GpuActivity &activity) {
  NamedFile object;
  char text[kPathBytes], members[128];
  Writer name(text, sizeof text), keys(members, sizeof members);
  write_gpu_object(activity, name);
  write_gpu_members(activity, keys);
  if (name.size() && !name.overflowed()) name_object(name.view(), object);
  Event e;
  e.fn = activity.fn;
  e.count = activity.bytes;
  const Call call(ticks_at(activity.start_ns));
  record_above(call, ticks_at(activity.end_ns), e, nullptr, object.path_bytes ? &object : nullptr, keys.view());
}

void CUPTIAPI give_buffer(uint8_t **buffer, size_t *size, size_t *most_records) {
  *buffer = static_cast<uint8_t *>(own_memory::pages(kBufferBytes));
  *size = *buffer ? kBufferBytes : 0;
  *most_records = 0;
}

void CUPTIAPI take_buffer(CUcontext context, uint32_t stream, uint8_t *buffer, size_t size, size_t valid) {
  Thread *t = g_pid == g_session.pid ? enter() : nullptr;
  if (t) {
    const UnderTheProcess tags;
    size_t lost = 0, dropped = 0;
    CUpti_Activity *next = nullptr;
    while (valid && g_cupti.cuptiActivityGetNextRecord(buffer, valid, &next) == CUPTI_SUCCESS) {
      const GpuActivity activity = read_activity(*next);
      if (activity.fn == Fn::kNone) continue;
      if (has_times(activity)) {
        record(activity);
      } else {
        ++lost;
      }
    }
    if (g_cupti.cuptiActivityGetNumDroppedRecords(context, stream, &dropped) == CUPTI_SUCCESS) lost += dropped;
    if (lost) count_loss(t, Loss::kDropped, lost);
  }
  if (buffer) own_memory::release(buffer, size);
}

void take_rest() {
  if (g_pid == sys::getpid()) g_cupti.cuptiActivityFlushAll(CUPTI_ACTIVITY_FLAG_FLUSH_FORCED);
}

bool enable_kinds() {
  for (const CUpti_ActivityKind &kind : kKinds) {
    if (g_cupti.cuptiActivityEnable(kind) == CUPTI_SUCCESS) continue;
    for (const CUpti_ActivityKind *enabled = kKinds; enabled < &kind; ++enabled) g_cupti.cuptiActivityDisable(*enabled);
    return false;
  }
  return true;
}

bool begin() {
  void *library = open_cupti();
  uint32_t version = 0;
  // A later one's records may be other ones than those that the headers describe.
  if (!library || !look_up(library) || g_cupti.cuptiGetVersion(&version) != CUPTI_SUCCESS ||
      version > CUPTI_API_VERSION) {
    return false;
  }
  g_pid = g_session.pid;
  g_clock.from_ticks = now_ticks();
  g_clock.from_ns = monotonic_ns();
  g_clock.rate_q32 = g_session.reference_rate_q32;
  return g_cupti.cuptiActivityRegisterTimestampCallback(give_time) == CUPTI_SUCCESS &&
         g_cupti.cuptiActivityRegisterCallbacks(give_buffer, take_buffer) == CUPTI_SUCCESS && enable_kinds();
}

bool is_chosen() {
  uint32_t layers;
  parse_layers(g_session.environment[Setting::TAILRACE_LAYERS], layers);
  return layers & kCuptiLayer;
}

}  // namespace

void find_gpu_activity() {
  const char *own = enter() && is_chosen() ? library_path() : nullptr;
  if (own) setenv(kVariable, own, 0);
}

}  // namespace tailrace

// The driver's call in cuInit. In an untraced process that has inherited the variable it does nothing.
extern "C" __attribute__((visibility("default"))) int InitializeInjection() {
  using namespace tailrace;
  if (!enter() || !is_chosen() || g_begun.exchange(true)) return 1;
  const int error = errno;
  if (begin()) {
    g_cupti.cuptiActivityFlushPeriod(kFlushMs);
    // Before those of the driver, which was loaded earlier, and before the process's exit event.
    atexit(take_rest);
  }
  // The program's next dlerror() must not report a library that isn't there.
  dlerror();
  errno = error;
  return 1;
}
