// Hooks: HDF5. What a program asked of the datasets and attributes of a file; the bytes that the file itself gave or
// took are in the calls below. How the wrappers get in the program's way is layers/layers.h's.
//
// What holds:
// - The library is asked nothing that fails, since it would print the failure, and nothing after a call that failed,
// since each of its functions empties the error stack first: that is the program's to read.
// - It is asked nothing that reads the file. H5Iget_name searches all of it for an object that was not opened by name
// but by a reference, say; such ids are kept, and have no name.
// - An id is asked each time: it may be another object's since (H5close begins to count again), or be called otherwise.
#include "layers/layers.h"

#include <stdint.h>

#include "base/sys.h"
#include "layers/hdf5_ids.h"
#include "session/record.h"

using namespace tailrace;

namespace {

// H5public.h and the headers beside it, as of HDF5 1.10: before, ids had 32 bits, and H5Dflush tells those libraries apart.
using hid_t = int64_t;
using herr_t = int;
using hsize_t = uint64_t;
constexpr int kIdFile = 1, kIdDatatype = 3, kIdDataspace = 4, kIdDataset = 5;               // H5I_type_t
enum TypeClass { kTypeString = 3, kTypeCompound = 6, kTypeVariable = 9, kTypeArray = 10 };  // H5T_class_t
struct Token {
  uint8_t bytes[16];  // H5O_token_t
};
constexpr hid_t kAll = 0;  // H5S_ALL

// clang-format off
#define HDF5_SYMBOLS(X) \
  X(H5Fcreate) X(H5Fopen) X(H5Fclose) X(H5Dcreate1) X(H5Dcreate2) X(H5Dopen1) X(H5Dopen2) X(H5Dclose) X(H5Dread) \
  X(H5Dwrite) X(H5Dread_multi) X(H5Dwrite_multi) X(H5Dread_chunk) X(H5Dread_chunk1) X(H5Dread_chunk2) \
  X(H5Dwrite_chunk) X(H5Aread) X(H5Awrite) X(H5Dcreate_anon) X(H5Gcreate_anon) X(H5Olink) X(H5Gcreate1) \
  X(H5Gcreate2) X(H5Gopen1) X(H5Gopen2) X(H5Oopen) X(H5Oopen_by_idx) X(H5Oopen_by_addr) X(H5Oopen_by_token) \
  X(H5Rdereference1) X(H5Rdereference2) X(H5Ropen_object) X(H5Ropen_attr) X(H5Acreate1) X(H5Acreate2) \
  X(H5Acreate_by_name) X(H5Aopen) X(H5Aopen_name) X(H5Aopen_by_name) X(H5Aopen_by_idx) X(H5Gclose) X(H5Oclose) \
  X(H5Aclose) X(H5Idec_ref)

#define HDF5_HELPERS(X) \
  X(H5Iget_type, int (*)(hid_t)) \
  X(H5Iget_name, ssize_t (*)(hid_t, char *, size_t)) \
  X(H5Fget_name, ssize_t (*)(hid_t, char *, size_t)) \
  X(H5Aget_name, ssize_t (*)(hid_t, size_t, char *)) \
  X(H5Aget_space, hid_t (*)(hid_t)) \
  X(H5Dget_space, hid_t (*)(hid_t)) \
  X(H5Sget_select_npoints, int64_t (*)(hid_t)) \
  X(H5Sclose, herr_t (*)(hid_t)) \
  X(H5Tget_size, size_t (*)(hid_t)) \
  X(H5Tget_class, int (*)(hid_t)) \
  X(H5Tis_variable_str, int (*)(hid_t)) \
  X(H5Tdetect_class, int (*)(hid_t, int)) \
  X(H5Tget_nmembers, int (*)(hid_t)) \
  X(H5Tget_member_type, hid_t (*)(hid_t, unsigned)) \
  X(H5Tget_super, hid_t (*)(hid_t)) \
  X(H5Tclose, herr_t (*)(hid_t))
// clang-format on

#define INDEX(symbol) k##symbol,
enum Symbol : size_t { HDF5_SYMBOLS(INDEX) kSymbols };
#undef INDEX
static_assert(kSymbols <= kMaxSymbols, "the table of a library's functions");
#define INDEX(symbol, type) k##symbol,
enum Helper : size_t { HDF5_HELPERS(INDEX) kHelpers };
#undef INDEX

// --- what the library says ---

uint64_t file_key(unsigned library, string_view name) { return fnv64(name.data(), name.size(), kFnv64Seed + library); }

class Asked {
 public:
  explicit Asked(unsigned library) : library_(library), helpers_(table()[library].helpers), errno_(errno) {}
  ~Asked() { errno = errno_; }
  Asked(const Asked &) = delete;
  Asked &operator=(const Asked &) = delete;

#define HELPER(symbol, type) \
  auto symbol() const { return reinterpret_cast<type>(helpers_[k##symbol]); }
  HDF5_HELPERS(HELPER)
#undef HELPER

  bool is(hid_t id, int type) const { return H5Iget_type()(id) == type; }
  bool is_named(hid_t id) const { return !is_nameless(id_key(library_, id)); }

  // The file of an object, as it was when the library opened it.
  bool file_of(hid_t id, NamedFile &out) const {
    PathBuffer path;
    ssize_t bytes = H5Fget_name()(id, path.data(), kPathBytes - 1);
    if (bytes <= 0 || static_cast<size_t>(bytes) >= kPathBytes - 1) return false;
    string_view name(path.data(), static_cast<size_t>(bytes));
    uint64_t key = file_key(library_, name);
    if (!layer_file_of(key, out)) keep_layer_file(key, path.data(), out);
    return true;
  }

  // The path of an object in its file, and behind an @ the name of its attribute.
  bool object_of(hid_t id, bool is_attribute, NamedFile &out) const {
    if (!is_named(id)) return false;
    PathBuffer text;
    ssize_t bytes = H5Iget_name()(id, text.data(), kPathBytes);
    if (bytes <= 0 || static_cast<size_t>(bytes) >= kPathBytes - 1) return false;
    auto end = static_cast<size_t>(bytes);
    if (is_attribute) {
      text.data()[end++] = '@';
      ssize_t more = H5Aget_name()(id, kPathBytes - end, text.data() + end);
      if (more <= 0 || static_cast<size_t>(more) >= kPathBytes - end) return false;
      end += static_cast<size_t>(more);
    }
    name_object({text.data(), end}, out);
    return true;
  }

  // What one element takes in memory; kUnknownBytes where it is a pointer to more.
  int64_t element_bytes(hid_t type) const {
    if (!is(type, kIdDatatype) || is_variable(type, 0)) return kUnknownBytes;
    return static_cast<int64_t>(H5Tget_size()(type));
  }

  int64_t points_between(hid_t dataset, hid_t memory, hid_t file) const {
    if (is(memory, kIdDataspace)) return H5Sget_select_npoints()(memory);
    if (is(file, kIdDataspace)) return H5Sget_select_npoints()(file);
    return file == kAll ? points_in(H5Dget_space()(dataset)) : -1;
  }

  int64_t points_in(hid_t space) const {
    if (space < 0) return -1;
    int64_t points = H5Sget_select_npoints()(space);
    H5Sclose()(space);
    return points;
  }

 private:
  static Library *table() { return g_libraries[static_cast<size_t>(Layer::kHdf5)]; }

  bool is_variable(hid_t type, int depth) const {
    constexpr int kDeepest = 8;
    switch (H5Tget_class()(type)) {
      case kTypeVariable: return true;
      case kTypeString: return H5Tis_variable_str()(type) > 0;
      case kTypeArray: {
        hid_t base = H5Tget_super()(type);
        bool found = depth >= kDeepest || (base >= 0 && is_variable(base, depth + 1));
        if (base >= 0) H5Tclose()(base);
        return found;
      }
      case kTypeCompound: {
        if (H5Tdetect_class()(type, kTypeVariable) > 0 || depth >= kDeepest) return true;
        // A string of either kind counts as a string there.
        if (H5Tdetect_class()(type, kTypeString) <= 0) return false;
        int members = H5Tget_nmembers()(type);
        for (int i = 0; i < members; ++i) {
          hid_t member = H5Tget_member_type()(type, static_cast<unsigned>(i));
          bool found = member >= 0 && is_variable(member, depth + 1);
          if (member >= 0) H5Tclose()(member);
          if (found) return true;
        }
        return false;
      }
      default: return false;
    }
  }

  unsigned library_;
  void *const *helpers_;
  int errno_;
};

int64_t product(int64_t points, int64_t element) {
  int64_t bytes;
  bool unknown = points < 0 || element == kUnknownBytes || __builtin_mul_overflow(points, element, &bytes);
  return unknown ? kUnknownBytes : bytes;
}

// `id` was just opened by a name below `parent`, or is the name it was given.
void opened_below(unsigned library, hid_t parent, hid_t id) {
  uint64_t key = id_key(library, id);
  is_nameless(id_key(library, parent)) ? add_nameless(key) : remove_nameless(key);
}

// --- records ---

// After a call that failed: nothing is asked.
void record_failure(const Call &call, uint64_t t1, Fn fn) {
  Event e;
  e.fn = fn;
  e.count = kNoCount;
  e.ret = -1;
  record_above(call, t1, e, nullptr, nullptr);
}

void record_object(const Asked &hdf5, const Call &call, uint64_t t1, Fn fn, hid_t id, bool is_attribute,
                   int64_t bytes) {
  NamedFile file, object;
  bool has_file = hdf5.file_of(id, file), has_object = hdf5.object_of(id, is_attribute, object);
  Event e;
  e.fn = fn;
  e.count = bytes == kUnknownBytes ? kNoCount : static_cast<uint64_t>(bytes);
  e.ret = bytes;
  record_above(call, t1, e, has_file ? &file : nullptr, has_object ? &object : nullptr);
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

// The names of what is about to be closed. On the stack, as nothing is held while the library runs.
struct ClosedNames {
  unsigned library_;
  char file[512], object[512];
  bool has_file = false, has_object = false;

  ClosedNames(unsigned library, hid_t id, int type) : library_(library) {
    Asked hdf5(library);
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

// Of the library of number N.
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

  // What opens or makes a dataset, by name.
#define DATASET(symbol, parameters, ...)                               \
  static hid_t symbol parameters {                                     \
    Call call;                                                         \
    hid_t ret = REAL_OF(symbol)(__VA_ARGS__);                          \
    if (!call) return ret;                                             \
    uint64_t t1 = now_ticks();                                         \
    if (ret < 0) return record_failure(call, t1, Fn::f_##symbol), ret; \
    Asked hdf5(N);                                                     \
    opened_below(N, parent, ret);                                      \
    record_object(hdf5, call, t1, Fn::f_##symbol, ret, false, 0);      \
    return ret;                                                        \
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
      record_object(Asked(N), call, now_ticks(), Fn::f_H5Olink, object, false, bytes);
    }
    return ret;
  }

  // What has no name.
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

  // What opens or makes another object by name: no event.
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

  // What gives back an id; H5Idec_ref returns how many hold it still.
#define GIVE_BACK(symbol)                         \
  static herr_t symbol(hid_t id) {                \
    herr_t ret = REAL_OF(symbol)(id);             \
    if (ret == 0) remove_nameless(id_key(N, id)); \
    return ret;                                   \
  }
  GIVE_BACK(H5Gclose)
  GIVE_BACK(H5Oclose)
  GIVE_BACK(H5Aclose)
  GIVE_BACK(H5Idec_ref)
#undef GIVE_BACK

#define TRANSFER(symbol, buffer)                                                                      \
  static herr_t symbol(hid_t dataset, hid_t type, hid_t memory, hid_t file, hid_t dxpl, buffer buf) { \
    Call call;                                                                                        \
    herr_t ret = REAL_OF(symbol)(dataset, type, memory, file, dxpl, buf);                             \
    if (!call) return ret;                                                                            \
    uint64_t t1 = now_ticks();                                                                        \
    if (ret < 0) return record_failure(call, t1, Fn::f_##symbol), ret;                                \
    Asked hdf5(N);                                                                                    \
    int64_t bytes = product(hdf5.points_between(dataset, memory, file), hdf5.element_bytes(type));    \
    if (function(Fn::f_##symbol).direction == Direction::W) note_written(id_key(N, dataset), bytes);  \
    record_object(hdf5, call, t1, Fn::f_##symbol, dataset, false, bytes);                             \
    return ret;                                                                                       \
  }
  TRANSFER(H5Dread, void *)
  TRANSFER(H5Dwrite, const void *)
#undef TRANSFER

  // An event for each dataset; all have the time of the call.
#define TRANSFERS(symbol, buffers)                                                                             \
  static herr_t symbol(size_t count, hid_t *datasets, hid_t *types, hid_t *memories, hid_t *files, hid_t dxpl, \
                       buffers bufs) {                                                                         \
    Call call;                                                                                                 \
    herr_t ret = REAL_OF(symbol)(count, datasets, types, memories, files, dxpl, bufs);                         \
    if (!call) return ret;                                                                                     \
    uint64_t t1 = now_ticks();                                                                                 \
    if (ret < 0) return record_failure(call, t1, Fn::f_##symbol), ret;                                         \
    Asked hdf5(N);                                                                                             \
    for (size_t i = 0; i < count; ++i) {                                                                       \
      int64_t points = hdf5.points_between(datasets[i], memories[i], files[i]);                                \
      record_object(hdf5, call, t1, Fn::f_##symbol, datasets[i], false,                                        \
                    product(points, hdf5.element_bytes(types[i])));                                            \
    }                                                                                                          \
    return ret;                                                                                                \
  }
  TRANSFERS(H5Dread_multi, void **)
  TRANSFERS(H5Dwrite_multi, const void **)
#undef TRANSFERS

  // A chunk as it lies in the file. Only the last form of the reading call tells how many bytes that is.
#define CHUNK(symbol, bytes, parameters, ...)                                 \
  static herr_t symbol parameters {                                           \
    Call call;                                                                \
    herr_t ret = REAL_OF(symbol)(__VA_ARGS__);                                \
    if (!call) return ret;                                                    \
    uint64_t t1 = now_ticks();                                                \
    if (ret < 0) return record_failure(call, t1, Fn::f_##symbol), ret;        \
    record_object(Asked(N), call, t1, Fn::f_##symbol, dataset, false, bytes); \
    return ret;                                                               \
  }
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

#define ATTRIBUTE(symbol, buffer)                                                                      \
  static herr_t symbol(hid_t attribute, hid_t type, buffer buf) {                                      \
    Call call;                                                                                         \
    herr_t ret = REAL_OF(symbol)(attribute, type, buf);                                                \
    if (!call) return ret;                                                                             \
    uint64_t t1 = now_ticks();                                                                         \
    if (ret < 0) return record_failure(call, t1, Fn::f_##symbol), ret;                                 \
    Asked hdf5(N);                                                                                     \
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
extern const LayerTable kHdf5Layer = {kMarks,       {"H5", nullptr}, kSymbolNames,       kSymbols,
                                      kHelperNames, kHelpers,        kLibrariesPerLayer, kWrapperTable};
}  // namespace tailrace
