// What a transfer of HDF5 selects, as further args of its event: the dataset's dimensions, the kind of the selection in
// the file, its points and blocks, whether the ranks made the transfer together, and of a long one the shape of the
// chunks.
//
// Invariants: see layers/hdf5.cc. A function that fails for some kinds of selection is called for the others only.
#pragma once

#include "layers/hdf5_query.h"

namespace tailrace::hdf5 {

enum SelectionType { kSelectNone, kSelectPoints, kSelectHyperslabs, kSelectAll };  // H5S_sel_type
enum SpaceClass { kScalar, kSimple };                                              // H5S_class_t
constexpr int kCollective = 1;                                                     // H5FD_mpio_xfer_t
constexpr int kMostDimensions = 32;                                                // H5S_MAX_RANK
constexpr int kChunked = 2;                                                        // H5D_layout_t
// In session.h's shortest waits, of 10 us: asking for the chunks takes 4 us, less than a hundredth of such a transfer.
constexpr uint64_t kLongTransfer = 50;

class Selection {
 public:
  explicit Selection(const Query &hdf5) : hdf5_(hdf5), out_(text_, sizeof text_) {}
  Selection(const Selection &) = delete;
  Selection &operator=(const Selection &) = delete;

  void add_dataset(hid_t dataset) {
    hid_t space = hdf5_.H5Dget_space()(dataset);
    if (space < 0) return;
    add_dimensions(space);
    hdf5_.H5Sclose()(space);
  }

  void add_transfer(hid_t dataset, hid_t memory, hid_t file, hid_t dxpl, uint64_t took_ticks) {
    add_dataset(dataset);
    if (took_ticks >= kLongTransfer * g_session.shortest_wait_ticks) add_chunks(dataset);
    add_number("points", hdf5_.points_between(dataset, memory, file));
    if (file == kAll) {
      add_word("selection", "all");
    } else if (hdf5_.is(file, kIdDataspace)) {
      add_selected(file);
    }
    add_how(dxpl);
  }

  // JSON members. Empty where nothing is known.
  string_view members() const { return out_.view(); }

 private:
  void begin(const char *key) { (out_ << (out_.size() ? ",\"" : "\"") << key) << "\":"; }
  void add_word(const char *key, const char *word) {
    begin(key);
    out_ << '"' << word << '"';
  }
  void add_number(const char *key, int64_t value) {
    if (value < 0) return;
    begin(key);
    out_.number(value);
  }
  void add_list(const hsize_t *values, int count) {
    out_ << '[';
    for (int i = 0; i < count; ++i) {
      if (i) out_ << ',';
      out_.number(static_cast<int64_t>(values[i]));
    }
    out_ << ']';
  }

  void add_dimensions(hid_t space) {
    int kind = hdf5_.H5Sget_simple_extent_type()(space), rank = 0;
    hsize_t sizes[kMostDimensions];
    if (kind == kSimple) rank = hdf5_.H5Sget_simple_extent_ndims()(space);
    if ((kind != kScalar && kind != kSimple) || rank < 0 || rank > kMostDimensions) return;
    if (rank && hdf5_.H5Sget_simple_extent_dims()(space, sizes, nullptr) < 0) return;
    begin("dims");
    add_list(sizes, rank);
  }

  void add_chunks(hid_t dataset) {
    hid_t created = hdf5_.H5Dget_create_plist()(dataset);
    if (created < 0) return;
    hsize_t sizes[kMostDimensions];
    const bool chunked = hdf5_.H5Pget_layout()(created) == kChunked;
    const int rank = chunked ? hdf5_.H5Pget_chunk()(created, kMostDimensions, sizes) : 0;
    hdf5_.H5Pclose()(created);
    if (rank <= 0 || rank > kMostDimensions) return;
    begin("chunk");
    add_list(sizes, rank);
  }

  void add_selected(hid_t space) {
    switch (hdf5_.H5Sget_select_type()(space)) {
      case kSelectNone: return add_word("selection", "none");
      case kSelectPoints: return add_word("selection", "points");
      case kSelectAll: return add_word("selection", "all");
      case kSelectHyperslabs: return add_hyperslab(space);
      default: return;
    }
  }

  void add_hyperslab(hid_t space) {
    const bool regular = hdf5_.H5Sis_regular_hyperslab()(space) > 0;
    add_word("selection", regular ? "regular" : "irregular");
    add_number("blocks", hdf5_.H5Sget_select_hyper_nblocks()(space));
    const int rank = hdf5_.H5Sget_simple_extent_ndims()(space);
    // Four lists of the most digits are longer than the room; that many dimensions have small sizes.
    if (!regular || rank <= 0 || rank > kMostDimensions) return;
    hsize_t slab[4][kMostDimensions];
    if (hdf5_.H5Sget_regular_hyperslab()(space, slab[0], slab[1], slab[2], slab[3]) < 0) return;
    const size_t before = out_.size();
    begin("slab");
    for (int i = 0; i < 4; ++i) {
      out_ << (i ? ',' : '[');
      add_list(slab[i], rank);
    }
    out_ << ']';
    if (out_.overflowed()) out_.truncate(before);
  }

  // HDF5 makes some transfers independently although the program requests a collective one.
  void add_how(hid_t dxpl) {
    constexpr hid_t kDefault = 0;  // H5P_DEFAULT
    int requested = 0, done = 0;
    if (dxpl == kDefault || !hdf5_.H5Pget_dxpl_mpio() || !hdf5_.H5Pget_mpio_actual_io_mode()) return;
    if (hdf5_.H5Pget_dxpl_mpio()(dxpl, &requested) < 0 || requested != kCollective) return;
    constexpr int kNoCollective = 0, kChunkIndependent = 1;  // H5D_mpio_actual_io_mode_t
    if (hdf5_.H5Pget_mpio_actual_io_mode()(dxpl, &done) < 0) return;
    add_word("transfer", done == kNoCollective || done == kChunkIndependent ? "fell_back" : "collective");
  }

  const Query &hdf5_;
  char text_[1536];
  Writer out_;
};

}  // namespace tailrace::hdf5
