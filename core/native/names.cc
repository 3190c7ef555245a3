// See names.h.
#include "names.h"

namespace tailrace::native {

void BlockNames::use_columns(Column *host, Column *const (&files)[5], Column *block, Column *stack) {
  host_column_ = host;
  stack_column_ = stack;
  block_column_ = block;
  for (size_t i = 0; i < 5; ++i) file_columns_[i] = files[i];
}

void BlockNames::begin_block(const std::string &host) {
  ++epoch_;
  files_.clear();
  hosts_.clear();
  stacks_.clear();
  host_ = host;
  host_index_ = FileName::kUnused;
}

void BlockNames::put(const std::string &kind, const Value &args) {
  FileName file;
  Value hash;
  each_member(args.text.data(), [&](std::string_view key, const Value &value) {
    if (key == "name") file.name = value;
    if (key == "value") hash = value;
    if (key == "type") file.type = value;
    if (key == "dev") file.dev = value;
    if (key == "ino") file.ino = value;
    if (key == "btime") file.btime = value;
    if (key == "blksize" && value.kind == Value::Kind::kNumber) file.block_bytes = integer_of(value.text);
  });
  if (hash.kind != Value::Kind::kString || file.name.kind != Value::Kind::kString) {
    throw JsonError(kind + " lacks its name or value");
  }
  file.key = HashKey::of(text_of(hash, &scratch_));
  ++epoch_;
  (kind == "FH" ? files_ : kind == "HH" ? hosts_ : stacks_).put(file);
}

int32_t BlockNames::host_of(const HashKey &key) {
  FileName *host = hosts_.find(key);
  if (host == nullptr) return own_host();
  if (host->index[0] == FileName::kUnused) {
    host->index[0] = host_column_->dictionary().index_of(text_of(host->name, &scratch_));
  }
  return host->index[0];
}

int32_t BlockNames::stack_of(const HashKey &key) {
  FileName *stack = stacks_.find(key);
  if (stack == nullptr) return -1;
  if (stack->index[0] == FileName::kUnused) {
    stack->index[0] = stack_column_->dictionary().index_of(text_of(stack->name, &scratch_));
  }
  return stack->index[0];
}

int32_t BlockNames::own_host() {
  if (host_index_ == FileName::kUnused) host_index_ = host_column_->dictionary().index_of(host_);
  return host_index_;
}

void BlockNames::set_file(FileName *file, bool second, size_t row) {
  if (file == nullptr) return;
  static constexpr size_t kFirst[] = {0, 2, 4}, kSecond[] = {1, 3};
  const size_t *which = second ? kSecond : kFirst;
  for (size_t i = 0; i < (second ? 2U : 3U); ++i) {
    Column *column = file_columns_[which[i]];
    if (column == nullptr) continue;
    int32_t &index = file->index[which[i]];
    if (index == FileName::kUnused) index = text_for(*file, which[i], column);
    column->set_index(row, index);
  }
  if (!second && block_column_ != nullptr && file->block_bytes > 0) block_column_->set_int(row, file->block_bytes);
}

int32_t BlockNames::text_for(const FileName &file, size_t which, Column *column) {
  if (which <= 1) return column->dictionary().index_of(text_of(file.name, &scratch_));
  const std::string type(file.type.kind == Value::Kind::kString ? text_of(file.type, &scratch_) : std::string_view());
  if (which == 4) return type.empty() ? -1 : column->dictionary().index_of(type);
  const std::optional<std::string> identity = identity_of(file, type);
  return identity ? column->dictionary().index_of(*identity) : -1;
}

// Empty where there was no file, and for the kernel's anonymous inodes, which all share one number. Of a file of which
// another tracer knew the name only, it is that name.
std::optional<std::string> BlockNames::identity_of(const FileName &file, const std::string &type) {
  if (type.empty() && file.dev.kind == Value::Kind::kNull) return "path:" + std::string(text_of(file.name, &scratch_));
  if (type == "none" || type == "anon" || file.dev.kind != Value::Kind::kString ||
      file.ino.kind != Value::Kind::kNumber) {
    return std::nullopt;
  }
  const std::string dev(text_of(file.dev, &scratch_));
  const std::string_view file_system = mounts_.file_system(host_, dev, text_of(file.name, &scratch_));
  std::string identity(file_system.empty() ? mounts_.machine(host_) : file_system);
  identity.append(":");
  if (file_system.empty()) identity.append(dev);
  identity.append(":").append(file.ino.text).append(":");
  if (file.btime.kind == Value::Kind::kNumber) identity.append(file.btime.text);
  return identity;
}

}  // namespace tailrace::native
