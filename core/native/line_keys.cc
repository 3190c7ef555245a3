// See line_keys.h.
#include "line_keys.h"

#include <algorithm>
#include <stdexcept>
#include <utility>

namespace tailrace::native {

LineKeys::LineKeys(const std::vector<std::string> *columns, size_t capacity, bool second)
    : capacity_(capacity), discover_(columns == nullptr), second_(second) {
  if (columns == nullptr) {
    for (const ColumnSpec &spec : kColumns) add(spec.name, spec.source, spec.type, spec.nullable);
  } else {
    for (const std::string &name : *columns) add_named(name);
  }
  map_columns();
  map_implied();
}

Column *LineKeys::add(const std::string &name, Source source, Type type, bool nullable) {
  columns_.push_back(std::make_unique<Column>(name, type, nullable, capacity_));
  Column *column = columns_.back().get();
  by_name_[name] = column;
  if (source == Source::kTopText) top_[name].action = Action::kText;
  if (source == Source::kTopInt) top_[name].action = Action::kInt;
  if (source == Source::kArgText) args_[name].action = Action::kText;
  if (source == Source::kArgInt) args_[name].action = Action::kInt;
  if (source == Source::kArgList) args_[name].action = Action::kList;
  auto &uses = source == Source::kTopText || source == Source::kTopInt ? top_ : args_;
  if (source != Source::kDerived) uses[name].column = column;
  return column;
}

void LineKeys::add_named(const std::string &name) {
  if (by_name_.count(name) != 0) throw std::invalid_argument("the column " + name + " is asked for twice");
  for (const ColumnSpec &spec : kColumns) {
    if (name == spec.name) {
      add(name, spec.source, spec.type, spec.nullable);
      return;
    }
  }
  if (name.compare(0, kTagPrefix.size(), kTagPrefix) != 0 || name.size() == kTagPrefix.size()) {
    throw std::invalid_argument("there is no column " + name);
  }
  add(name, Source::kArgText, Type::kText, true);
}

Column *LineKeys::column(const char *name) const {
  const auto found = by_name_.find(name);
  return found == by_name_.end() ? nullptr : found->second;
}

void LineKeys::map_columns() {
  special_.ts = column("ts");
  special_.dur = column("dur");
  special_.host = column("host");
  special_.start = column("start");
  const char *const names[] = {"path", "path2", "file", "file2", "ftype"};
  for (size_t i = 0; i < 5; ++i) special_.files[i] = column(names[i]);
  special_.block = column("blksize");
  special_.stack = column("stack");
  special_.offset = column("offset");
  special_.offset2 = column("offset2");
  special_.lines = column("lines");
  special_.ret = column("ret");
  special_.count = column("count");
  special_.dir = column("dir");
  top_["name"].seen = kHasName;
  top_["cat"].seen = kHasCat;
  top_["pid"].seen = kHasPid;
  top_["tid"].seen = kHasTid;
  top_["ph"] = {Action::kPhase, kHasPhase, 0, nullptr};
  top_["ts"] = {special_.ts != nullptr ? Action::kTs : Action::kSkip, kHasTs, 0, nullptr};
  if (special_.dur != nullptr) top_["dur"].action = Action::kDur;
  if (special_.ts != nullptr) args_["ns"].action = Action::kNs;
  if (special_.host != nullptr) args_["hhash"].action = Action::kHost;
  const auto &[path, path2, file, file2, ftype] = special_.files;
  const bool first_of_two = second_ && (path2 != nullptr || file2 != nullptr);
  if (path != nullptr || file != nullptr || ftype != nullptr || special_.block != nullptr ||
      special_.offset != nullptr || first_of_two) {
    args_["fhash"].action = Action::kFile;
  }
  if (path2 != nullptr || file2 != nullptr || second_) args_["fhash2"].action = Action::kFile2;
  if (path != nullptr) args_["path"].action = Action::kPath;
  if (special_.stack != nullptr) args_["stack"].action = Action::kStack;
}

void LineKeys::map_implied() {
  args_["ret"].seen = kHasRet;
  args_["count"].seen = kHasCount;
  args_["dir"].seen = kHasDir;
  args_["size"].gives = kGivesSize;
  args_["errno"].gives = kGivesErrno;
  args_["calls"].gives = kGivesCalls;
  args_["offset"].seen = kHasOffset;
  args_["offset"].gives = kGivesOffset;
  args_["follows"].gives = kGivesFollows;
  if (special_.dir != nullptr) read_names();
}

void LineKeys::read_names() {
  special_.name = column("name");
  if (special_.name != nullptr) return;
  own_names_ = std::make_unique<Column>("name", Type::kText, false, capacity_);
  special_.name = own_names_.get();
  top_["name"].action = Action::kText;
  top_["name"].column = special_.name;
}

KeyUse LineKeys::use_of(Level level, const std::string &name) {
  auto &uses = level == Level::kTop ? top_ : args_;
  const auto found = uses.find(name);
  if (found != uses.end()) return found->second;
  if (discover_ && level == Level::kArgs && name.size() > kTagPrefix.size() &&
      name.compare(0, kTagPrefix.size(), kTagPrefix) == 0) {
    add(name, Source::kArgText, Type::kText, true);
    return args_[name];
  }
  return {};
}

std::vector<std::unique_ptr<Column>> LineKeys::finish(size_t rows) {
  if (discover_) {
    std::sort(columns_.begin() + kColumnCount, columns_.end(),
              [](const auto &a, const auto &b) { return a->name() < b->name(); });
  }
  for (auto &column : columns_) column->finish(rows);
  return std::move(columns_);
}

}  // namespace tailrace::native
