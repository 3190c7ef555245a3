// Queries of the wrappers of HDF5 (layers/hdf5.cc) to the library that they wrap: the file, name and size of an object.
#pragma once

#include <errno.h>
#include <stdint.h>
#include <sys/types.h>

#include "layers/hdf5_ids.h"
#include "layers/layers.h"

namespace tailrace::hdf5 {

// Types of H5public.h and its siblings, as of HDF5 1.10. Earlier ids had 32 bits; those libraries have no H5Dflush.
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
  X(H5Aclose) X(H5Idec_ref) X(H5Fflush) X(H5Dflush) X(H5Dset_extent)

#define HDF5_HELPERS(X) \
  X(H5Iget_type, int (*)(hid_t)) \
  X(H5Iget_name, ssize_t (*)(hid_t, char *, size_t)) \
  X(H5Fget_name, ssize_t (*)(hid_t, char *, size_t)) \
  X(H5Aget_name, ssize_t (*)(hid_t, size_t, char *)) \
  X(H5Aget_space, hid_t (*)(hid_t)) \
  X(H5Dget_space, hid_t (*)(hid_t)) \
  X(H5Dget_create_plist, hid_t (*)(hid_t)) \
  X(H5Pget_layout, int (*)(hid_t)) \
  X(H5Pget_chunk, int (*)(hid_t, int, hsize_t *)) \
  X(H5Pclose, herr_t (*)(hid_t)) \
  X(H5Sget_select_npoints, int64_t (*)(hid_t)) \
  X(H5Sclose, herr_t (*)(hid_t)) \
  X(H5Tget_size, size_t (*)(hid_t)) \
  X(H5Tget_class, int (*)(hid_t)) \
  X(H5Tis_variable_str, int (*)(hid_t)) \
  X(H5Tdetect_class, int (*)(hid_t, int)) \
  X(H5Tget_nmembers, int (*)(hid_t)) \
  X(H5Tget_member_type, hid_t (*)(hid_t, unsigned)) \
  X(H5Tget_super, hid_t (*)(hid_t)) \
  X(H5Tclose, herr_t (*)(hid_t)) \
  X(H5Sget_simple_extent_ndims, int (*)(hid_t)) \
  X(H5Sget_simple_extent_dims, int (*)(hid_t, hsize_t *, hsize_t *)) \
  X(H5Sget_simple_extent_type, int (*)(hid_t)) \
  X(H5Sget_select_type, int (*)(hid_t)) \
  X(H5Sget_select_hyper_nblocks, int64_t (*)(hid_t)) \
  X(H5Sis_regular_hyperslab, int (*)(hid_t)) \
  X(H5Sget_regular_hyperslab, herr_t (*)(hid_t, hsize_t *, hsize_t *, hsize_t *, hsize_t *)) \
  HDF5_PARALLEL_HELPERS(X)

// Of libraries that are built with MPI.
#define HDF5_PARALLEL_HELPERS(X) \
  X(H5Pget_dxpl_mpio, herr_t (*)(hid_t, int *)) \
  X(H5Pget_mpio_actual_io_mode, herr_t (*)(hid_t, int *))
// clang-format on

#define INDEX(symbol) k##symbol,
enum Symbol : size_t { HDF5_SYMBOLS(INDEX) kSymbols };
#undef INDEX
static_assert(kSymbols <= kMaxSymbols, "the table of a library's functions");
#define INDEX(symbol, type) k##symbol,
enum Helper : size_t { HDF5_HELPERS(INDEX) kHelpers };
#undef INDEX
constexpr size_t kRequiredHelpers = kH5Pget_dxpl_mpio;

inline uint64_t file_key(unsigned library, string_view name) {
  return fnv64(name.data(), name.size(), kFnv64Seed + library);
}

// Restores errno at its end.
class Query {
 public:
  explicit Query(unsigned library) : library_(library), helpers_(table()[library].helpers), errno_(errno) {}
  ~Query() { errno = errno_; }
  Query(const Query &) = delete;
  Query &operator=(const Query &) = delete;

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

  // The path of an object in its file, with "@" and the name for an attribute.
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

  // The size of one element in memory; kUnknownBytes where it is a pointer to data of variable length.
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
        // H5Tdetect_class counts strings of fixed and of variable length as strings.
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

inline int64_t product(int64_t points, int64_t element) {
  int64_t bytes;
  bool unknown = points < 0 || element == kUnknownBytes || __builtin_mul_overflow(points, element, &bytes);
  return unknown ? kUnknownBytes : bytes;
}

}  // namespace tailrace::hdf5
