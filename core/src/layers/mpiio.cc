// Hooks: MPI-IO. The requests of a rank to a file. The bytes that went through this process's descriptors, which in a
// collective call include those of other ranks, are in the system calls below. layers/layers.h says how the library's
// callers get the wrappers.
//
// Invariants:
// - No headers of an MPI are needed: a handle is a pointer in Open MPI and a number in MPICH, and both pass through a
//   register unchanged. Only functions of the library read a status or a handle.
// - No function of the library is called after a call that failed: an error handler may end the program.
#include <stdint.h>

#include "base/sys.h"
#include "layers/layers.h"
#include "session/record.h"

using namespace tailrace;

namespace {

using File = void *;       // MPI_File is a pointer in all of them
using Handle = uintptr_t;  // communicator, data type, info
using Offset = int64_t;    // MPI_Offset
using Count = int64_t;     // MPI_Count
using Request = void *;    // where a request is put
struct Status;

// clang-format off
#define MPI_CALLS(X, suffix) \
  X(read, suffix) X(read_all, suffix) X(read_shared, suffix) X(read_ordered, suffix) X(write, suffix) \
  X(write_all, suffix) X(write_shared, suffix) X(write_ordered, suffix) X(read_at, suffix) X(read_at_all, suffix) \
  X(write_at, suffix) X(write_at_all, suffix) X(iread, suffix) X(iread_all, suffix) X(iread_shared, suffix) \
  X(iwrite, suffix) X(iwrite_all, suffix) X(iwrite_shared, suffix) X(iread_at, suffix) X(iread_at_all, suffix) \
  X(iwrite_at, suffix) X(iwrite_at_all, suffix) X(read_all_begin, suffix) X(read_ordered_begin, suffix) \
  X(write_all_begin, suffix) X(write_ordered_begin, suffix) X(read_at_all_begin, suffix) \
  X(write_at_all_begin, suffix)

#define MPI_OTHERS(X) \
  X(open, ) X(close, ) X(set_view, ) X(set_size, ) X(preallocate, ) X(sync, ) X(read_all_end, ) \
  X(read_ordered_end, ) X(read_at_all_end, ) X(write_all_end, ) X(write_ordered_end, ) X(write_at_all_end, )

#define MPI_SYMBOLS(X) \
  MPI_OTHERS(X) MPI_CALLS(X, ) MPI_CALLS(X, _c)
// clang-format on

#define INDEX(call, suffix) k_##call##suffix,
enum Symbol : size_t { MPI_SYMBOLS(INDEX) kSymbols };
#undef INDEX
static_assert(kSymbols <= kMaxSymbols, "the table of a library's functions");
enum Helper : size_t { kTypeSize, kGetCount, kGetByteOffset, kCommSize, kHelpers };

// --- queries to the library ---

constexpr unsigned kLayer = static_cast<unsigned>(Layer::kMpiIo);
template <class Type>
Type *helper(unsigned library, Helper which) {
  return reinterpret_cast<Type *>(g_libraries[kLayer][library].helpers[which]);
}

int64_t bytes_of(unsigned library, Handle type, int64_t count) {
  int size = -1;
  int64_t bytes;
  bool known = helper<int(Handle, int *)>(library, kTypeSize)(type, &size) == 0 && size >= 0 && count >= 0;
  return known && !__builtin_mul_overflow(count, static_cast<int64_t>(size), &bytes) ? bytes : kUnknownBytes;
}

// Memory for the status of a call whose caller ignores it: 20 to 32 bytes in the present libraries.
struct OwnStatus {
  alignas(16) char room[256];
};

bool is_ignored(const Status *status) {
  constexpr uintptr_t kOpenMpi = 0, kMpich = 1;  // MPI_STATUS_IGNORE
  auto at = reinterpret_cast<uintptr_t>(status);
  return at == kOpenMpi || at == kMpich;
}

int64_t bytes_done(unsigned library, const Status *status, Handle type) {
  int count = -1;
  bool known = helper<int(const Status *, Handle, int *)>(library, kGetCount)(status, type, &count) == 0;
  return known && count >= 0 ? bytes_of(library, type, count) : kUnknownBytes;
}

int64_t byte_offset(unsigned library, File file, Offset in_view) {
  Offset offset = -1;
  bool known = helper<int(File, Offset, Offset *)>(library, kGetByteOffset)(file, in_view, &offset) == 0;
  return known && offset >= 0 ? offset : -1;
}

uint32_t ranks_of(unsigned library, Handle communicator) {
  int ranks = 0;
  bool known = helper<int(Handle, int *)>(library, kCommSize)(communicator, &ranks) == 0;
  return known && ranks > 0 ? static_cast<uint32_t>(ranks) : 0;
}

// --- records ---

uint64_t file_key(unsigned library, File file) {
  constexpr uint64_t kSeed = 0x4D50492D494F;
  return fnv64(&file, sizeof file, kSeed + library);
}

// Whether all ranks that have opened a file make the call together.
constexpr bool is_collective(string_view name) {
  return name.find("_all") != string_view::npos || name.find("_ordered") != string_view::npos;
}

class Recorder {
 public:
  Recorder(unsigned library, const Call &call, Fn fn, int ret)
      : library_(library), call_(call), errno_(errno), ok_(ret == 0), t1_(now_ticks()) {
    event_.fn = fn;
    event_.ret = ok_ ? 0 : -1;
    event_.count = kNoCount;
  }
  ~Recorder() { errno = errno_; }
  Recorder(const Recorder &) = delete;
  Recorder &operator=(const Recorder &) = delete;

  bool ok() const { return ok_; }
  Event &event() { return event_; }
  void at(File file, Offset in_view) {
    if (ok_) event_.offset = byte_offset(library_, file, in_view);
  }
  void requested(Handle type, int64_t count) {
    if (!ok_) return;
    int64_t bytes = bytes_of(library_, type, count);
    if (bytes != kUnknownBytes) event_.count = static_cast<uint64_t>(bytes);
    event_.ret = bytes;
  }
  void moved(const Status *status, Handle type) {
    if (ok_) event_.ret = bytes_done(library_, status, type);
  }
  void moves_later() {
    if (ok_) event_.ret = kUnknownBytes;
  }
  void write(File file, bool collective) {
    NamedFile name;
    uint32_t ranks = 0;
    bool known = layer_file_of(file_key(library_, file), name, &ranks);
    write_above(known ? &name : nullptr, ok_ && known && collective ? ranks : 0);
  }
  void write_open(File file, const char *path, Handle communicator) {
    NamedFile name;
    if (ok_) {
      uint32_t ranks = ranks_of(library_, communicator);
      keep_layer_file(file_key(library_, file), without_file_system(path), name, ranks);
      return write_above(&name, ranks);
    }
    bool readable = reads_as_string(path);
    if (readable) name_file(AT_FDCWD, path, Lookup::kFollow, name);
    record_above(call_, t1_, event_, readable ? &name : nullptr, nullptr);
  }

 private:
  // ROMIO accepts the kind of file system before the name, "ufs:/scratch/file".
  static const char *without_file_system(const char *path) {
    const char *end = path;
    while (*end >= 'a' && *end <= 'z') ++end;
    bool has_kind = end > path && *end == ':' && access_fails(path);
    return has_kind ? end + 1 : path;
  }
  static bool access_fails(const char *path);
  void write_above(const NamedFile *name, uint32_t ranks) {
    char text[32];
    Writer members(text, sizeof text);
    if (ranks) members << "\"ranks\":", members.number(ranks);
    record_above(call_, t1_, event_, name, nullptr, members.view());
  }

  unsigned library_;
  const Call &call_;
  int errno_;
  bool ok_;
  uint64_t t1_;
  Event event_;
};

bool Recorder::access_fails(const char *path) { return sys::call(SYS_faccessat, AT_FDCWD, sys::pointer(path), 0) < 0; }

// --- wrappers ---

// The wrappers of library N.
template <unsigned N>
struct Mpi {
#define REAL_OF(call) reinterpret_cast<decltype(&Mpi::call)>(g_libraries[kLayer][N].real[k_##call])

  static int open(Handle communicator, const char *path, int mode, Handle info, File *file) {
    Call call;
    int ret = REAL_OF(open)(communicator, path, mode, info, file);
    if (call) Recorder(N, call, Fn::f_MPI_File_open, ret).write_open(ret == 0 ? *file : nullptr, path, communicator);
    return ret;
  }
  static int close(File *file) {
    Call call;
    // After a success the handle is invalid, and with a null pointer there is none.
    File closed = call && file ? *file : nullptr;
    int ret = REAL_OF(close)(file);
    if (call) Recorder(N, call, Fn::f_MPI_File_close, ret).write(closed, true);
    return ret;
  }
#define PLAIN(name, parameters, ...)                                           \
  static int name parameters {                                                 \
    Call call;                                                                 \
    int ret = REAL_OF(name)(__VA_ARGS__);                                      \
    if (call) Recorder(N, call, Fn::f_MPI_File_##name, ret).write(file, true); \
    return ret;                                                                \
  }
  PLAIN(set_view, (File file, Offset at, Handle etype, Handle type, const char *representation, Handle info), file, at,
        etype, type, representation, info)
  PLAIN(set_size, (File file, Offset size), file, size)
  PLAIN(preallocate, (File file, Offset size), file, size)
  PLAIN(sync, (File file), file)
  PLAIN(read_all_end, (File file, void *buf, Status *status), file, buf, status)
  PLAIN(read_ordered_end, (File file, void *buf, Status *status), file, buf, status)
  PLAIN(read_at_all_end, (File file, void *buf, Status *status), file, buf, status)
  PLAIN(write_all_end, (File file, const void *buf, Status *status), file, buf, status)
  PLAIN(write_ordered_end, (File file, const void *buf, Status *status), file, buf, status)
  PLAIN(write_at_all_end, (File file, const void *buf, Status *status), file, buf, status)
#undef PLAIN

  // A call that reads may get less than it requested. Its status tells, the program's or, where that is ignored, ours.
#define READ(name, number, suffix, with_at, ...)                                 \
  Call call;                                                                     \
  OwnStatus own;                                                                 \
  if (call && is_ignored(status)) status = reinterpret_cast<Status *>(own.room); \
  int ret = REAL_OF(name##suffix)(__VA_ARGS__);                                  \
  if (call) {                                                                    \
    Recorder record(N, call, Fn::f_MPI_File_##name, ret);                        \
    record.requested(type, count);                                               \
    record.moved(status, type);                                                  \
    with_at;                                                                     \
    record.write(file, is_collective(#name));                                    \
  }                                                                              \
  return ret;
#define OTHER(name, suffix, with_at, later, ...)          \
  Call call;                                              \
  int ret = REAL_OF(name##suffix)(__VA_ARGS__);           \
  if (call) {                                             \
    Recorder record(N, call, Fn::f_MPI_File_##name, ret); \
    record.requested(type, count);                        \
    later;                                                \
    with_at;                                              \
    record.write(file, is_collective(#name));             \
  }                                                       \
  return ret;
#define READS(name, suffix, number)                                                          \
  static int name##suffix(File file, void *buf, number count, Handle type, Status *status) { \
    READ(name, number, suffix, , file, buf, count, type, status)                             \
  }
#define READS_AT(name, suffix, number)                                                                  \
  static int name##suffix(File file, Offset at, void *buf, number count, Handle type, Status *status) { \
    READ(name, number, suffix, record.at(file, at), file, at, buf, count, type, status)                 \
  }
#define WRITES(name, suffix, number)                                                               \
  static int name##suffix(File file, const void *buf, number count, Handle type, Status *status) { \
    OTHER(name, suffix, , , file, buf, count, type, status)                                        \
  }
#define WRITES_AT(name, suffix, number)                                                                       \
  static int name##suffix(File file, Offset at, const void *buf, number count, Handle type, Status *status) { \
    OTHER(name, suffix, record.at(file, at), , file, at, buf, count, type, status)                            \
  }
  // Calls that only begin a transfer: the moved bytes are known elsewhere, and too late.
#define BEGINS(name, suffix, number)                                                                \
  static int name##suffix(File file, const void *buf, number count, Handle type, Request request) { \
    OTHER(name, suffix, , record.moves_later(), file, buf, count, type, request)                    \
  }
#define BEGINS_AT(name, suffix, number)                                                                        \
  static int name##suffix(File file, Offset at, const void *buf, number count, Handle type, Request request) { \
    OTHER(name, suffix, record.at(file, at), record.moves_later(), file, at, buf, count, type, request)        \
  }
#define SPLITS(name, suffix, number)                                               \
  static int name##suffix(File file, const void *buf, number count, Handle type) { \
    OTHER(name, suffix, , record.moves_later(), file, buf, count, type)            \
  }
#define SPLITS_AT(name, suffix, number)                                                        \
  static int name##suffix(File file, Offset at, const void *buf, number count, Handle type) {  \
    OTHER(name, suffix, record.at(file, at), record.moves_later(), file, at, buf, count, type) \
  }
#define BOTH(form, name) form(name, , int) form(name, _c, Count)
  BOTH(READS, read)
  BOTH(READS, read_all)
  BOTH(READS, read_shared)
  BOTH(READS, read_ordered)
  BOTH(READS_AT, read_at)
  BOTH(READS_AT, read_at_all)
  BOTH(WRITES, write)
  BOTH(WRITES, write_all)
  BOTH(WRITES, write_shared)
  BOTH(WRITES, write_ordered)
  BOTH(WRITES_AT, write_at)
  BOTH(WRITES_AT, write_at_all)
  BOTH(BEGINS, iread)
  BOTH(BEGINS, iread_all)
  BOTH(BEGINS, iread_shared)
  BOTH(BEGINS, iwrite)
  BOTH(BEGINS, iwrite_all)
  BOTH(BEGINS, iwrite_shared)
  BOTH(BEGINS_AT, iread_at)
  BOTH(BEGINS_AT, iread_at_all)
  BOTH(BEGINS_AT, iwrite_at)
  BOTH(BEGINS_AT, iwrite_at_all)
  BOTH(SPLITS, read_all_begin)
  BOTH(SPLITS, read_ordered_begin)
  BOTH(SPLITS, write_all_begin)
  BOTH(SPLITS, write_ordered_begin)
  BOTH(SPLITS_AT, read_at_all_begin)
  BOTH(SPLITS_AT, write_at_all_begin)
#undef REAL_OF
};

#define NAME(call, suffix) "MPI_File_" #call #suffix,
constexpr const char *kSymbolNames[] = {MPI_SYMBOLS(NAME)};
#undef NAME
constexpr const char *kHelperNames[] = {"PMPI_Type_size", "PMPI_Get_count", "PMPI_File_get_byte_offset",
                                        "PMPI_Comm_size"};
constexpr const char *kMarks[] = {"MPI_File_open", "MPI_Init", nullptr};

#define ADDRESS0(call, suffix) reinterpret_cast<void *>(&Mpi<0>::call##suffix),
#define ADDRESS1(call, suffix) reinterpret_cast<void *>(&Mpi<1>::call##suffix),
constexpr unsigned kLibraries = 2;  // a process has one MPI; an unused copy may be loaded beside it
void *const kWrapperTable[kLibraries][kMaxSymbols] = {{MPI_SYMBOLS(ADDRESS0)}, {MPI_SYMBOLS(ADDRESS1)}};

}  // namespace

namespace tailrace {
extern const LayerTable kMpiIoLayer = {
    kMarks,       {"MPI_File_", "PMPI_File_"}, kSymbolNames, kSymbols, kHelperNames, kHelpers, kHelpers, kLibraries,
    kWrapperTable};
}  // namespace tailrace
