// Hands a batch to Arrow without a copy (https://arrow.apache.org/docs/format/CDataInterface.html): a struct array with
// one child a column, text as dictionaries with int32 indices.
//
// Invariant: every exported array shares ownership of the batch, which lives until the last one is released.
#pragma once

#include <cstdint>
#include <memory>

#include "columns.h"

extern "C" {
// The two structures of the C data interface, guarded as its specification asks for.
#ifndef ARROW_C_DATA_INTERFACE
#define ARROW_C_DATA_INTERFACE
#define ARROW_FLAG_DICTIONARY_ORDERED 1
#define ARROW_FLAG_NULLABLE 2
#define ARROW_FLAG_MAP_KEYS_SORTED 4

struct ArrowSchema {
  const char *format;
  const char *name;
  const char *metadata;
  int64_t flags;
  int64_t n_children;
  struct ArrowSchema **children;
  struct ArrowSchema *dictionary;
  void (*release)(struct ArrowSchema *);
  void *private_data;
};

struct ArrowArray {
  int64_t length;
  int64_t null_count;
  int64_t offset;
  int64_t n_buffers;
  int64_t n_children;
  const void **buffers;
  struct ArrowArray **children;
  struct ArrowArray *dictionary;
  void (*release)(struct ArrowArray *);
  void *private_data;
};
#endif
}

namespace tailrace::native {

// Arrow's format string of a column's values or indices.
const char *arrow_format(Type type);

void export_schema(const std::shared_ptr<const Batch> &batch, ArrowSchema *out);
void export_array(const std::shared_ptr<const Batch> &batch, ArrowArray *out);

}  // namespace tailrace::native
