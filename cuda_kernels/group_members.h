// What the kernels over groups of tables (group_*.cu) take of each member. group_*.py have the same as NumPy dtypes,
// and say what each field is; graph_ops fills them in C++, without common.cuh.
#ifndef SOK1X_GROUP_MEMBERS_H
#define SOK1X_GROUP_MEMBERS_H

#ifdef __CUDACC__
typedef int i32;
typedef long long i64;
#else
#include <stdint.h>
typedef int32_t i32;
typedef int64_t i64;
#endif

struct Slot;  // of a hash index: hash_index.cuh

// Of a warp's tile on a GPU, for each team of threads that serves a row together: rows that are copied at a time, bags
// that are summed one after the other, and rows that an optimizer moves (as kAdamRows in adam_rows.cuh).
#define GATHER_ROWS 4
#define COMBINE_BAGS 2
#define SHORT_BAGS 4
#define UPDATE_ROWS 2

// In place of a `mean` of 1, of bags with weights: they are divided by the root of the sum of the weights' squares.
#define BY_ROOT 2

// Of a count that tells a bag's length and its number (bags.cuh), those of the number; as in bags.py.
#define BAG_BITS 32

// Rows that lie in several blocks, as a buffer [rank][member][rows] has them: row i is in the block b with starts[b] <=
// i < starts[b + 1], which begins `offsets[b]` bytes after base. Without blocks (count 0) all rows follow base.
struct Blocks {
  char* base;
  i64 count;
  const i64* starts;   // [count + 1], from 0 on
  const i64* offsets;  // [count]
};

struct UniqueMember {
  Blocks keys;  // n of key_type
  i64 key_type, n;
  i64* values;
  i32* inverse;
  i64 first_slot, slots;  // on a GPU: the member's places in the scratch table, a power of two of them
};

struct PartitionMember {
  const void* values;  // the member's keys, of key_type; how many is in `distinct`
  i64 key_type;
  i64 n;               // at most so many
  i32* position;
  i32* inverse;  // numbers of `values`, which become their places among the member's sent keys
  i64 n_inverse;
  i64 parts, first;  // a key's owner is first + key mod parts
};

// Keys of bags as they are sent: see group_pairs.py.
struct PairsMember {
  const void* keys;  // n of key_type
  i64 key_type, n;
  const i64* offsets;  // [n_bags + 1]
  i64 n_bags, first;   // the number of bag 0
  const i32* position;
  Blocks out;  // of 16 bytes a key: the keys of a block, then their bags
};

struct FindMember {
  Blocks keys;  // n of key_type
  i64 key_type, n;
  const Slot* index;  // null: a table without index, in which key k has row k / ranks; ranks 0: row 0
  i64 capacity, ranks;
  i64 least, limit;  // without index: keys outside [least, limit) have no row; limit 0: all are in range
  i32* rows;
  // Read by the host's sok1x_group_look_up alone:
  const float* table;  // rows of dim floats
  i64 dim;
  Blocks out;
  i64 out_half;
  i64 again;  // rows that are not -1, and their values, are there: of a table with an index
};

struct GatherMember {
  Blocks source;  // rows of dim numbers
  i64 source_half;  // of 16 bits, else of 32
  i64 dim, n;
  const i32* rows;     // null: row i is i
  const i32* inverse;  // null, or row i is rows[inverse[i]]
  Blocks out;
  i64 out_half;
};

// Initial values, for keys whose row is negative; as initial_rows in row_init.cu takes them.
struct InitialMember {
  Blocks keys;  // n of key_type
  i64 key_type, n;
  const i32* rows;
  Blocks out;  // n rows of dim numbers
  i64 out_half, dim;
  i64 seed, identity, kind;
  double a, b;
};

struct SumMember {
  Blocks values;  // rows of dim numbers
  i64 values_half;  // of 16 bits, else of 32
  i64 dim;
  const i32* segments;
  i64 n, num_segments;
  const i64* offsets;  // [n_bags + 1], where each bag begins among the items; null: item i is row i
  i64 n_bags, mean;    // mean: a term is divided by its bag's number of items
  Blocks sums;  // num_segments rows of dim floats
  Blocks half;  // the wrapper's
  i64 first_segment;  // number of the member's first segment among those of all members
  const float* scales;  // of bags [n], what each item's term is multiplied with; null: nothing, or as `mean` says
};

struct BagsMember {
  const i64* bags;  // item i is in bag bags[i * stride]
  i64 stride, n, n_bags;
  i64 most;  // of items in a bag: the longest is looked for where there are more items in all
  i64* offsets;
  const i64* splits;  // [n_bags + 1], the offsets, given; null: `bags` says
};

struct CombineMember {
  Blocks source;  // rows of dim numbers
  i64 source_half;  // of 16 bits, else of 32
  i64 dim;
  const i32* inverse;  // the row of each of n_keys keys, negative where it has none
  const i64* offsets;  // [n_bags + 1], where each bag begins among them
  i64 n_bags, n_keys, mean;
  Blocks out;  // n_bags rows
  i64 out_half;  // 1 where the source is of 16 bits
  // [n_keys], what each key's row is multiplied with; null: nothing. A mean is then divided by the sum of a bag's
  // weights, and `scales` [n_keys], out, are the weights divided by it; null where they are not wanted.
  const float* weights;
  float* scales;
};

// The gradient of what rows are multiplied with, as CombineMember has them.
struct WeightsMember {
  const char* gradient;  // of n_bags rows of dim numbers
  i64 gradient_half;     // of 16 bits, else of 32
  const char* rows;      // of each of n keys
  i64 rows_half, dim;
  const i64* offsets;  // [n_bags + 1], where each bag begins among them
  i64 n_bags, n, mean;
  const i32* order;      // [n], which of `weights` each key has, and of `out`; null: the same
  const float* weights;  // [n]
  float* out;            // [n]
};

// Partial sums of bags.
struct PartsMember {
  const char* base;
  const i64* at;  // [n_parts], bytes from base to each part
  i64 n_parts;
  i64 half;  // numbers of 16 bits, else of 32
  i64 dim, n_bags;
  // [n_bags + 1], where each bag begins among its keys, by whose number sums are divided; null: they are not
  const i64* offsets;
  char* out;
};

struct StampMember {
  const i64* values;  // null: rows are given
  i32* rows;
  i64 n;
  i64* stamps;  // null: rows are not stamped
  i64 table_rows;
  i64* clock;
  i64 ahead, at_least;
};

// A variable in which rows that are given out again begin anew: rows of `words` 32-bit words, `low`, `high`, `low`, ...
struct ResetMember {
  i32* data;
  i64 words;
  i32 low, high;
};

// What a table that forgets has besides (row_use.cu says what it is).
struct UseMember {
  i64* used;       // null: it does not forget
  i64* frequency;  // null: nobody counts
  i64 *tick, *known;
  i64 unknown;  // what *known is where it becomes the clock's step
  const i64* clock;
};

// A training lookup has asked for rows, -1 among them.
struct TouchMember {
  UseMember use;
  const i32* rows;
  i64 n;
};

// New keys of one table: `rows` of distinct keys are -1 where a key has none yet, `fresh` times.
struct InsertMember {
  Slot* index;
  i64 capacity;
  const i64* keys;  // [n], distinct
  i64 n;
  i32* rows;
  i64 used, fresh;  // rows in use before, and keys that get one
  i64* count;       // rows in use
  float* table;     // rows of dim floats
  i64 dim;
  // Initial values, as initial_rows in row_init.cu takes them; kind -1: they are in the rows already.
  i64 seed, identity, kind;
  double a, b;
  // As stamp_range in stamps.cu takes them.
  i64 ahead, at_least;
  const i64* clock;
  i64* stamps;
  // Of a table that forgets, whose keys first get the rows at the end of `free` [n_free]; `used` says how many rows
  // have been given out. A touch of the rows follows.
  UseMember use;
  const i64* free;
  i64 n_free;
  i64 *free_count, *admitted;
  const ResetMember* resets;
  i64 n_resets;
};

// An optimizer's step, whose rows are distinct.
struct UpdateMember {
  const float* values;  // the gradients, n rows of dim floats
  i64 dim;
  const i32* rows;
  i64 n;
  const float* scalars[6];
  i64 table_rows;
  float* table;
  float* slots[2];
};

#endif  // SOK1X_GROUP_MEMBERS_H
