// The keys of a line: what is done with the value of each, which columns were requested decides (see parse.h).
#pragma once

#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "columns.h"
#include "layout.h"

namespace tailrace::native {

// Invariant: the pointers to columns hold as long as the object, also after a column is added.
class LineKeys {
 public:
  // `columns`: names of kColumns or "tag.<key>"; nullptr takes all of kColumns and every tag that occurs.
  // `second`: the second file is wanted whatever the columns are. Throws std::invalid_argument on a name that is
  // neither.
  LineKeys(const std::vector<std::string> *columns, size_t capacity, bool second);

  // What is done with the value of a key; a tag that is met for the first time may become a column.
  KeyUse use_of(Level level, const std::string &name);

  const std::vector<std::unique_ptr<Column>> &columns() const { return columns_; }
  // The columns in the requested order, tags that were met by name. Ends the use of the object.
  std::vector<std::unique_ptr<Column>> finish(size_t rows);

  // The columns that the parser sets by itself; nullptr: not requested.
  struct Special {
    Column *ts, *dur, *host;
    Column *start;     // one value a block
    Column *files[5];  // path, path2, file, file2, ftype
    Column *block;     // blksize
    Column *stack;
    Column *offset, *offset2, *ret, *count, *dir, *lines;
    Column *name;  // also where it is not requested, if `dir` is: a line may leave out what its name tells
  };
  const Special &special() const { return special_; }

 private:
  Column *add(const std::string &name, Source source, Type type, bool nullable);
  void add_named(const std::string &name);
  Column *column(const char *name) const;
  void map_columns();
  void map_implied();
  void read_names();

  size_t capacity_;
  bool discover_, second_;
  std::vector<std::unique_ptr<Column>> columns_;
  std::unordered_map<std::string, Column *> by_name_;
  std::unordered_map<std::string, KeyUse> top_, args_;
  Special special_ = {};
  std::unique_ptr<Column> own_names_;
};

}  // namespace tailrace::native
