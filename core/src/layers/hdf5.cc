// Hooks: HDF5. The requests of a program to the datasets and attributes of a file; the bytes of the file itself are in
// the system calls below. layers/layers.h says how the library's callers get the wrappers.
//
// Invariants:
// - The wrappers call no function of the library that fails, since the library would print the failure.
// - They call none after a call that failed, since each function first clears the error stack, which the program may
// read.
// - They call none that reads the file. H5Iget_name searches the whole file for an object that was not opened by name
// (but
//   by a reference, for example); the ids of such objects are noted, and have no name (layers/hdf5_ids.h).
// - The name of an id is looked up each time: the id may belong to another object since (H5close restarts the
// numbering),
//   or the object may have another name.
#include "layers/hdf5_query.h"
#include "layers/hdf5_selection.h"
#include "layers/layers.h"
#include "session/record.h"

using namespace tailrace;
using namespace tailrace::hdf5;

namespace {

// To be called after `id` was opened by a name below `parent`, or was linked under that name.
void opened_below(unsigned library, hid_t parent, hid_t id) {
  uint64_t key = id_key(library, id);
  is_nameless(id_key(library, parent)) ? add_nameless(key) : remove_nameless(key);
}

// --- records ---

// After a call that failed, without any query.
void record_failure(const Call &call, uint64_t t1, Fn fn) {
  Event e;
  e.fn = fn;
  e.count = kNoCount;
  e.ret = -1;
  record_above(call, t1, e, nullptr, nullptr);
}

void record_object(const Query &hdf5, const Call &call, uint64_t t1, Fn fn, hid_t id, bool is_attribute, int64_t bytes,
                   string_view members = {}) {
  NamedFile file, object;
  bool has_file = hdf5.file_of(id, file), has_object = hdf5.object_of(id, is_attribute, object);
  Event e;
  e.fn = fn;
  e.count = bytes == kUnknownBytes ? kNoCount : static_cast<uint64_t>(bytes);
  e.ret = bytes;
  record_above(call, t1, e, has_file ? &file : nullptr, has_object ? &object : nullptr, members);
}

void record_call(const Query &hdf5, const Call &call, uint64_t t1, Fn fn, hid_t id, bool is_dataset) {
  if (is_dataset) {
    Selection made(hdf5);
    made.add_dataset(id);
    return record_object(hdf5, call, t1, fn, id, false, 0, made.members());
  }
  NamedFile file;
  bool has_file = hdf5.file_of(id, file);
  Event e;
  e.fn = fn;
  record_above(call, t1, e, has_file ? &file : nullptr, nullptr);
}

void record_open(unsigned library, const Call &call, uint64_t t1, Fn fn, const char *name, hid_t id) {
  const int before = errno;
  Event e;
  e.fn = fn;
  e.ret = id < 0 ? -1 : 0;
  NamedFile file;
  if (id >= 0) {
    keep_layer_file(file_key(library, name), name, file);
    record_above(call, t1, e, &file, nullptr);
  } else if (reads_as_string(name)) {
    name_file(AT_FDCWD, name, Lookup::kFollow, file);
    record_above(call, t1, e, &file, nullptr);
  } else {
    record_above(call, t1, e, nullptr, nullptr);
  }
  errno = before;
}

// The names of an object that is about to be closed. On the stack, since no buffer may be held while the library runs.
struct ClosedNames {
  unsigned library_;
  char file[512], object[512];
  bool has_file = false, has_object = false;

  ClosedNames(unsigned library, hid_t id, int type) : library_(library) {
    Query hdf5(library);
    if (!hdf5.is(id, type)) return;
    auto fits = [](ssize_t bytes) { return bytes > 0 && bytes < static_cast<ssize_t>(sizeof file); };
    has_file = fits(hdf5.H5Fget_name()(id, file, sizeof file));
    has_object = type == kIdDataset && hdf5.is_named(id) && fits(hdf5.H5Iget_name()(id, object, sizeof object));
  }

  void record(const Call &call, uint64_t t1, Fn fn, herr_t ret) const {
    const int before = errno;
    NamedFile of, what;
    bool known = has_file && layer_file_of(file_key(library_, file), of);
    if (has_object) name_object(object, what);
    Event e;
    e.fn = fn;
    e.ret = ret < 0 ? -1 : 0;
    record_above(call, t1, e, known ? &of : nullptr, has_object ? &what : nullptr);
    errno = before;
  }
};

// --- wrappers ---

// The wrappers of library N.
template <unsigned N>
struct Hdf5 {
#define REAL_OF(symbol) reinterpret_cast<decltype(&Hdf5::symbol)>(g_libraries[0][N].real[k##symbol])

  static hid_t H5Fcreate(const char *name, unsigned flags, hid_t fcpl, hid_t fapl) {
    Call call;
    hid_t ret = REAL_OF(H5Fcreate)(name, flags, fcpl, fapl);
    if (call) record_open(N, call, now_ticks(), Fn::f_H5Fcreate, name, ret);
    return ret;
  }
  static hid_t H5Fopen(const char *name, unsigned flags, hid_t fapl) {
    Call call;
    hid_t ret = REAL_OF(H5Fopen)(name, flags, fapl);
    if (call) record_open(N, call, now_ticks(), Fn::f_H5Fopen, name, ret);
    return ret;
  }
#define CLOSE(symbol, type)                                             \
  static herr_t symbol(hid_t id) {                                      \
    if (!enter()) return REAL_OF(symbol)(id);                           \
    ClosedNames closing(N, id, type);                                   \
    Call call;                                                          \
    herr_t ret = REAL_OF(symbol)(id);                                   \
    if (call) closing.record(call, now_ticks(), Fn::f_##symbol, ret);   \
    if (ret >= 0 && type == kIdDataset) remove_nameless(id_key(N, id)); \
    return ret;                                                         \
  }
  CLOSE(H5Fclose, kIdFile)
  CLOSE(H5Dclose, kIdDataset)
#undef CLOSE

  // Calls that open or create a dataset by name.
#define DATASET(symbol, parameters, ...)                                          \
  static hid_t symbol parameters {                                                \
    Call call;                                                                    \
    hid_t ret = REAL_OF(symbol)(__VA_ARGS__);                                     \
    if (!call) return ret;                                                        \
    uint64_t t1 = now_ticks();                                                    \
    if (ret < 0) return record_failure(call, t1, Fn::f_##symbol), ret;            \
    Query hdf5(N);                                                                \
    opened_below(N, parent, ret);                                                 \
    Selection made(hdf5);                                                         \
    made.add_dataset(ret);                                                        \
    record_object(hdf5, call, t1, Fn::f_##symbol, ret, false, 0, made.members()); \
    return ret;                                                                   \
  }
  DATASET(H5Dcreate1, (hid_t parent, const char *name, hid_t type, hid_t space, hid_t dcpl), parent, name, type, space,
          dcpl)
  DATASET(H5Dcreate2, (hid_t parent, const char *name, hid_t type, hid_t space, hid_t lcpl, hid_t dcpl, hid_t dapl),
          parent, name, type, space, lcpl, dcpl, dapl)
  DATASET(H5Dopen1, (hid_t parent, const char *name), parent, name)
  DATASET(H5Dopen2, (hid_t parent, const char *name, hid_t dapl), parent, name, dapl)
#undef DATASET

  static hid_t H5Dcreate_anon(hid_t parent, hid_t type, hid_t space, hid_t dcpl, hid_t dapl) {
    hid_t ret = REAL_OF(H5Dcreate_anon)(parent, type, space, dcpl, dapl);
    if (ret < 0 || !enter()) return ret;
    add_nameless(id_key(N, ret));
    add_unlinked(id_key(N, ret));
    return ret;
  }
  static herr_t H5Olink(hid_t object, hid_t parent, const char *name, hid_t lcpl, hid_t lapl) {
    Call call;
    herr_t ret = REAL_OF(H5Olink)(object, parent, name, lcpl, lapl);
    if (ret < 0) return ret;
    opened_below(N, parent, object);
    int64_t bytes;
    if (call && take_unlinked(id_key(N, object), bytes)) {
      record_object(Query(N), call, now_ticks(), Fn::f_H5Olink, object, false, bytes);
    }
    return ret;
  }

  // Calls that open or create an object without a name: no event.
#define NAMELESS(symbol, parameters, ...)                  \
  static hid_t symbol parameters {                         \
    hid_t ret = REAL_OF(symbol)(__VA_ARGS__);              \
    if (ret >= 0 && enter()) add_nameless(id_key(N, ret)); \
    return ret;                                            \
  }
  NAMELESS(H5Gcreate_anon, (hid_t parent, hid_t gcpl, hid_t gapl), parent, gcpl, gapl)
  NAMELESS(H5Oopen_by_addr, (hid_t parent, uint64_t address), parent, address)
  NAMELESS(H5Oopen_by_token, (hid_t parent, Token token), parent, token)
  NAMELESS(H5Rdereference1, (hid_t object, int type, const void *reference), object, type, reference)
  NAMELESS(H5Rdereference2, (hid_t object, hid_t oapl, int type, const void *reference), object, oapl, type, reference)
  NAMELESS(H5Ropen_object, (void *reference, hid_t rapl, hid_t oapl), reference, rapl, oapl)
  NAMELESS(H5Ropen_attr, (void *reference, hid_t rapl, hid_t aapl), reference, rapl, aapl)
#undef NAMELESS

  // Calls that open or create another object by name: no event.
#define OBJECT(symbol, parameters, ...)         \
  static hid_t symbol parameters {              \
    hid_t ret = REAL_OF(symbol)(__VA_ARGS__);   \
    if (ret >= 0) opened_below(N, parent, ret); \
    return ret;                                 \
  }
  OBJECT(H5Gcreate1, (hid_t parent, const char *name, size_t hint), parent, name, hint)
  OBJECT(H5Gcreate2, (hid_t parent, const char *name, hid_t lcpl, hid_t gcpl, hid_t gapl), parent, name, lcpl, gcpl,
         gapl)
  OBJECT(H5Gopen1, (hid_t parent, const char *name), parent, name)
  OBJECT(H5Gopen2, (hid_t parent, const char *name, hid_t gapl), parent, name, gapl)
  OBJECT(H5Oopen, (hid_t parent, const char *name, hid_t lapl), parent, name, lapl)
  OBJECT(H5Oopen_by_idx, (hid_t parent, const char *group, int by, int order, hsize_t n, hid_t lapl), parent, group, by,
         order, n, lapl)
  OBJECT(H5Acreate1, (hid_t parent, const char *name, hid_t type, hid_t space, hid_t acpl), parent, name, type, space,
         acpl)
  OBJECT(H5Acreate2, (hid_t parent, const char *name, hid_t type, hid_t space, hid_t acpl, hid_t aapl), parent, name,
         type, space, acpl, aapl)
  OBJECT(H5Acreate_by_name,
         (hid_t parent, const char *object, const char *name, hid_t type, hid_t space, hid_t acpl, hid_t aapl,
          hid_t lapl),
         parent, object, name, type, space, acpl, aapl, lapl)
  OBJECT(H5Aopen, (hid_t parent, const char *name, hid_t aapl), parent, name, aapl)
  OBJECT(H5Aopen_name, (hid_t parent, const char *name), parent, name)
  OBJECT(H5Aopen_by_name, (hid_t parent, const char *object, const char *name, hid_t aapl, hid_t lapl), parent, object,
         name, aapl, lapl)
  OBJECT(H5Aopen_by_idx, (hid_t parent, const char *object, int by, int order, hsize_t n, hid_t aapl, hid_t lapl),
         parent, object, by, order, n, aapl, lapl)
#undef OBJECT

  // Calls that release an id; H5Idec_ref returns the remaining references.
#define RELEASE(symbol)                           \
  static herr_t symbol(hid_t id) {                \
    herr_t ret = REAL_OF(symbol)(id);             \
    if (ret == 0) remove_nameless(id_key(N, id)); \
    return ret;                                   \
  }
  RELEASE(H5Gclose)
  RELEASE(H5Oclose)
  RELEASE(H5Aclose)
  RELEASE(H5Idec_ref)
#undef RELEASE

#define TRANSFER(symbol, buffer)                                                                      \
  static herr_t symbol(hid_t dataset, hid_t type, hid_t memory, hid_t file, hid_t dxpl, buffer buf) { \
    Call call;                                                                                        \
    herr_t ret = REAL_OF(symbol)(dataset, type, memory, file, dxpl, buf);                             \
    if (!call) return ret;                                                                            \
    uint64_t t1 = now_ticks();                                                                        \
    if (ret < 0) return record_failure(call, t1, Fn::f_##symbol), ret;                                \
    Query hdf5(N);                                                                                    \
    int64_t bytes = product(hdf5.points_between(dataset, memory, file), hdf5.element_bytes(type));    \
    if (function(Fn::f_##symbol).direction == Direction::W) note_written(id_key(N, dataset), bytes);  \
    Selection made(hdf5);                                                                             \
    made.add_transfer(dataset, memory, file, dxpl, t1 - call.t0());                                   \
    record_object(hdf5, call, t1, Fn::f_##symbol, dataset, false, bytes, made.members());             \
    return ret;                                                                                       \
  }
  TRANSFER(H5Dread, void *)
  TRANSFER(H5Dwrite, const void *)
#undef TRANSFER

  // One event per dataset; all have the time of the call.
#define TRANSFERS(symbol, buffers)                                                                                     \
  static herr_t symbol(size_t count, hid_t *datasets, hid_t *types, hid_t *memories, hid_t *files, hid_t dxpl,         \
                       buffers bufs) {                                                                                 \
    Call call;                                                                                                         \
    herr_t ret = REAL_OF(symbol)(count, datasets, types, memories, files, dxpl, bufs);                                 \
    if (!call) return ret;                                                                                             \
    uint64_t t1 = now_ticks();                                                                                         \
    if (ret < 0) return record_failure(call, t1, Fn::f_##symbol), ret;                                                 \
    Query hdf5(N);                                                                                                     \
    for (size_t i = 0; i < count; ++i) {                                                                               \
      int64_t points = hdf5.points_between(datasets[i], memories[i], files[i]);                                        \
      Selection made(hdf5);                                                                                            \
      made.add_transfer(datasets[i], memories[i], files[i], dxpl, t1 - call.t0());                                     \
      record_object(hdf5, call, t1, Fn::f_##symbol, datasets[i], false, product(points, hdf5.element_bytes(types[i])), \
                    made.members());                                                                                   \
    }                                                                                                                  \
    return ret;                                                                                                        \
  }
  TRANSFERS(H5Dread_multi, void **)
  TRANSFERS(H5Dwrite_multi, const void **)
#undef TRANSFERS

#define RECORDED(symbol, record, parameters, ...)                      \
  static herr_t symbol parameters {                                    \
    Call call;                                                         \
    herr_t ret = REAL_OF(symbol)(__VA_ARGS__);                         \
    if (!call) return ret;                                             \
    uint64_t t1 = now_ticks();                                         \
    if (ret < 0) return record_failure(call, t1, Fn::f_##symbol), ret; \
    record;                                                            \
    return ret;                                                        \
  }

  // Calls on an open object, which has the dimensions afterwards.
#define ON_OBJECT(symbol, is_dataset, parameters, ...) \
  RECORDED(symbol, record_call(Query(N), call, t1, Fn::f_##symbol, object, is_dataset), parameters, __VA_ARGS__)
  ON_OBJECT(H5Fflush, false, (hid_t object, int scope), object, scope)
  ON_OBJECT(H5Dflush, true, (hid_t object), object)
  ON_OBJECT(H5Dset_extent, true, (hid_t object, const hsize_t *size), object, size)
#undef ON_OBJECT

  // A chunk as it is in the file. Only the last form of the reading call returns its size.
#define CHUNK(symbol, bytes, parameters, ...) \
  RECORDED(symbol, record_object(Query(N), call, t1, Fn::f_##symbol, dataset, false, bytes), parameters, __VA_ARGS__)
  CHUNK(H5Dread_chunk, kUnknownBytes, (hid_t dataset, hid_t dxpl, const hsize_t *at, uint32_t *filters, void *buf),
        dataset, dxpl, at, filters, buf)
  CHUNK(H5Dread_chunk1, kUnknownBytes, (hid_t dataset, hid_t dxpl, const hsize_t *at, uint32_t *filters, void *buf),
        dataset, dxpl, at, filters, buf)
  CHUNK(H5Dread_chunk2, buf &&size ? static_cast<int64_t>(*size) : 0,
        (hid_t dataset, hid_t dxpl, const hsize_t *at, uint32_t *filters, void *buf, size_t *size), dataset, dxpl, at,
        filters, buf, size)
  CHUNK(H5Dwrite_chunk, static_cast<int64_t>(size),
        (hid_t dataset, hid_t dxpl, uint32_t filters, const hsize_t *at, size_t size, const void *buf), dataset, dxpl,
        filters, at, size, buf)
#undef CHUNK
#undef RECORDED

#define ATTRIBUTE(symbol, buffer)                                                                      \
  static herr_t symbol(hid_t attribute, hid_t type, buffer buf) {                                      \
    Call call;                                                                                         \
    herr_t ret = REAL_OF(symbol)(attribute, type, buf);                                                \
    if (!call) return ret;                                                                             \
    uint64_t t1 = now_ticks();                                                                         \
    if (ret < 0) return record_failure(call, t1, Fn::f_##symbol), ret;                                 \
    Query hdf5(N);                                                                                     \
    int64_t bytes = product(hdf5.points_in(hdf5.H5Aget_space()(attribute)), hdf5.element_bytes(type)); \
    record_object(hdf5, call, t1, Fn::f_##symbol, attribute, true, bytes);                             \
    return ret;                                                                                        \
  }
  ATTRIBUTE(H5Aread, void *)
  ATTRIBUTE(H5Awrite, const void *)
#undef ATTRIBUTE
#undef REAL_OF
};

#define NAME(symbol) #symbol,
constexpr const char *kSymbolNames[] = {HDF5_SYMBOLS(NAME)};
#undef NAME
#define NAME(symbol, type) #symbol,
constexpr const char *kHelperNames[] = {HDF5_HELPERS(NAME)};
#undef NAME
static_assert(kHelpers <= sizeof Library::helpers / sizeof(void *), "the table of a library's helpers");
constexpr const char *kMarks[] = {"H5Dread", "H5Dwrite", "H5Dflush", nullptr};

#define LIBRARY(number) \
  { HDF5_SYMBOLS(ADDRESS##number) }
#define ADDRESS0(symbol) reinterpret_cast<void *>(&Hdf5<0>::symbol),
#define ADDRESS1(symbol) reinterpret_cast<void *>(&Hdf5<1>::symbol),
#define ADDRESS2(symbol) reinterpret_cast<void *>(&Hdf5<2>::symbol),
#define ADDRESS3(symbol) reinterpret_cast<void *>(&Hdf5<3>::symbol),
void *const kWrapperTable[kLibrariesPerLayer][kMaxSymbols] = {LIBRARY(0), LIBRARY(1), LIBRARY(2), LIBRARY(3)};

}  // namespace

namespace tailrace {
extern const LayerTable kHdf5Layer = {kMarks,   {"H5", nullptr},  kSymbolNames,       kSymbols,     kHelperNames,
                                      kHelpers, kRequiredHelpers, kLibrariesPerLayer, kWrapperTable};
}  // namespace tailrace
