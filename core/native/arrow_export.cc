// See arrow_export.h. A consumer may move children and dictionaries out of their parent. Each has its own holder, and a
// holder releases only those that were not moved (release != nullptr).
#include "arrow_export.h"

#include <string>
#include <vector>

namespace tailrace::native {

namespace {

struct SchemaHolder {
  std::string name;
  std::vector<ArrowSchema> children;
  std::vector<ArrowSchema *> child_pointers;
  std::unique_ptr<ArrowSchema> dictionary;
};

struct ArrayHolder {
  std::shared_ptr<const Batch> batch;
  const void *buffers[3] = {};
  std::vector<ArrowArray> children;
  std::vector<ArrowArray *> child_pointers;
  std::unique_ptr<ArrowArray> dictionary;
};

template <typename Struct, typename Holder>
void release(Struct *self) {
  auto *holder = static_cast<Holder *>(self->private_data);
  for (Struct &child : holder->children) {
    if (child.release != nullptr) child.release(&child);
  }
  if (holder->dictionary != nullptr && holder->dictionary->release != nullptr) {
    holder->dictionary->release(holder->dictionary.get());
  }
  delete holder;
  self->release = nullptr;
}

SchemaHolder *start_schema(ArrowSchema *out, const char *format, std::string name, int64_t flags) {
  auto *holder = new SchemaHolder;
  holder->name = std::move(name);
  *out = {};
  out->format = format;
  out->name = holder->name.c_str();
  out->flags = flags;
  out->release = release<ArrowSchema, SchemaHolder>;
  out->private_data = holder;
  return holder;
}

ArrayHolder *start_array(const std::shared_ptr<const Batch> &batch, ArrowArray *out, size_t length, int64_t null_count,
                         int64_t buffers) {
  auto *holder = new ArrayHolder;
  holder->batch = batch;
  *out = {};
  out->length = static_cast<int64_t>(length);
  out->null_count = null_count;
  out->n_buffers = buffers;
  out->buffers = holder->buffers;
  out->release = release<ArrowArray, ArrayHolder>;
  out->private_data = holder;
  return holder;
}

template <typename Struct, typename Holder>
void adopt_children(Holder *holder, Struct *out, size_t count) {
  holder->children.resize(count);
  for (Struct &child : holder->children) holder->child_pointers.push_back(&child);
  out->n_children = static_cast<int64_t>(count);
  out->children = holder->child_pointers.data();
}

void export_column_schema(const Column &column, ArrowSchema *out) {
  SchemaHolder *holder =
      start_schema(out, arrow_format(column.type()), column.name(), column.nullable() ? ARROW_FLAG_NULLABLE : 0);
  if (column.type() != Type::kText) return;
  holder->dictionary = std::make_unique<ArrowSchema>();
  start_schema(holder->dictionary.get(), "u", "", 0);
  out->dictionary = holder->dictionary.get();
}

void export_column(const std::shared_ptr<const Batch> &batch, const Column &column, ArrowArray *out) {
  ArrayHolder *holder = start_array(batch, out, batch->rows, column.null_count(), 2);
  holder->buffers[0] = column.validity();
  holder->buffers[1] = column.values();
  if (column.type() != Type::kText) return;
  const Dictionary &texts = column.dictionary();
  holder->dictionary = std::make_unique<ArrowArray>();
  ArrayHolder *inner = start_array(batch, holder->dictionary.get(), texts.size(), 0, 3);
  inner->buffers[1] = texts.offsets().data();
  inner->buffers[2] = texts.data().data();
  out->dictionary = holder->dictionary.get();
}

}  // namespace

const char *arrow_format(Type type) { return type == Type::kInt64 ? "l" : "i"; }

void export_schema(const std::shared_ptr<const Batch> &batch, ArrowSchema *out) {
  SchemaHolder *holder = start_schema(out, "+s", "", 0);
  adopt_children(holder, out, batch->columns.size());
  for (size_t i = 0; i < batch->columns.size(); ++i) {
    export_column_schema(*batch->columns[i], &holder->children[i]);
  }
}

void export_array(const std::shared_ptr<const Batch> &batch, ArrowArray *out) {
  ArrayHolder *holder = start_array(batch, out, batch->rows, 0, 1);
  adopt_children(holder, out, batch->columns.size());
  for (size_t i = 0; i < batch->columns.size(); ++i) {
    export_column(batch, *batch->columns[i], &holder->children[i]);
  }
}

}  // namespace tailrace::native
