// Host memory that has all rows of tables whose variables are a cache.
//
// A tier is one table's, in the container of its variables, and is freed with them. It has a column for each variable
// with a value for each row. A column is one range of addresses, reserved for as many rows as there may be, of which a
// part from the beginning is memory; it grows by pieces, and never moves. On a GPU's machine pieces are pinned as long
// as they may be: then kernels reach them under the same addresses.
//
// Variables that are there when the tier gets its memory may share a column: what they have for a row lies side by side
// there, a record, and each has a field of it.
#ifndef SOK1X_BRIDGE_TIER_H
#define SOK1X_BRIDGE_TIER_H

#include <map>
#include <string>
#include <vector>

#include "bridge_request.h"

namespace sok1x {

// What Python sees of a column, or of a field. Kept in step with tiers.py's _Info.
struct ColumnInfo {
  void* memory;        // of the column
  int64_t bytes;       // that there are; of a field that has not begun none
  int64_t pinned;      // of them, from the first on
  int64_t offset;      // where in a record the field lies
  int64_t stride;      // bytes of a record; 0 of a column of its own
};

class Column {
 public:
  Column() {}
  ~Column();
  Column(const Column&) = delete;
  Column& operator=(const Column&) = delete;

  // Has at least `bytes` bytes; reserves addresses for `most`, or fewer, at first. pin: how many more may be pinned.
  // What is new is zero. Returns errno, 0 for none; then nothing has changed.
  int Grow(int64_t bytes, int64_t most, int64_t pin);

  const ColumnInfo& info() const { return info_; }
  int pin_error() const { return pin_error_; }

 private:
  struct Pinned {
    char* memory;
    void* context;
  };
  int Reserve(int64_t least, int64_t most);
  ColumnInfo info_ = {nullptr, 0, 0, 0, 0};
  int64_t reserved_ = 0;
  std::vector<Pinned> pinned_;
  int pin_error_ = 0;  // CUDA's, of the first piece that could not be pinned
};

// One variable's part of a record.
struct Field {
  std::string column;
  int64_t offset, row_bytes, stride;
  bool has_begun;  // whether all rows there are have a value
};

// Used by the executor's thread alone, and by whoever deletes it.
class HostTier : public tf::ResourceBase {
 public:
  std::map<std::string, Column> columns;
  std::map<std::string, Field> fields;
  std::string DebugString() const override { return "rows of an embedding table in host memory"; }
};

}  // namespace sok1x

#endif  // SOK1X_BRIDGE_TIER_H
