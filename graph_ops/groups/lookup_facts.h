// What is known of a lookup, or its gradient, before it runs: its table, how rows begin, and how bags go.
#ifndef SOK1X_GROUPS_LOOKUP_FACTS_H
#define SOK1X_GROUPS_LOOKUP_FACTS_H

#include <cstdint>

namespace sok1x {

// How bags may go: numbers of exchanges (exchanges/*.py); what moves fewer bytes; and all2all in place of that, which
// the other ranks are told (exchanges/choice.py).
constexpr int kAll2All = 0, kReduceScatter = 1, kChooses = 2, kSettled = 4;

constexpr int kConstant = 1;  // how rows begin that are all one number: row_init.py

// The slots that optimizers keep for a table's rows. Kept in step with stores/known_slots.py.
struct SlotsOf {
  struct Slot {
    const char *container, *name;  // '' for TensorFlow's default container
    double value;                  // of a new row
  };
  int64_t count;
  Slot slots[1];  // [count]
};

// What is known of a member before it runs. Kept in step with lookup_run.py's FACTS.
struct LookupFacts {
  int64_t dim;          // D
  int64_t rows;         // V of a table without index, on each rank that has keys; another's may grow
  int64_t hashed;       // 1: the table has an index
  int64_t key_type;     // of the table, as numbered in common.cuh
  int64_t half;         // 1: embeddings are float16
  int64_t global_step;  // 1: the last host input of the op that makes rows distinct is the global step
  int64_t count_at, stamps_at, clock_at;  // the places of these variables among a lookup's; -1 for none
  int64_t parts, first;  // a key's owner is first + key mod parts; 0: all ranks
  int64_t keys;          // without index: how many keys there are on all ranks; 0: parts * V
  int64_t by_bag;        // 1: a lookup by bag, or its gradient
  int64_t slots, most;   // of a lookup by bag: S, 0 where samples have no slots, and the most keys of a bag
  int64_t mean;          // by bag, how sums are divided: `mean` of CombineMember
  int64_t ragged;        // by bag, 1: offsets are given as row splits, else by the indices of a SparseTensor
  int64_t weighted;      // by bag, 1: each key has a weight
  int64_t exchange;      // by bag, of several ranks: how it is to go, kAll2All, kReduceScatter, kChooses or kSettled
  int64_t kept;          // the output where rows are left for a gradient to weights; 0: nobody asks for them
  // Where exchanges go by hosts, the ranks that this one asks, those of its own host: it asks near_first + key mod
  // near_parts, and these ask the owners; near_parts 0: it asks the owners itself.
  int64_t near_parts, near_first;
  // How rows begin, as initial_rows in row_init.cu takes it; kind -1: as they are in the variable.
  int64_t seed, identity, kind;
  // Of a table that forgets (stores/forgetful_store.py): the places of its variables, -1 for none; whether the lookup
  // may refuse new keys; SlotsOf*, where its optimizers' slots are said, and null there while they are not known; and
  // whether keys without a row read `absent` in all places.
  int64_t used_at, free_at, counters_at, frequency_at, filters;
  const SlotsOf* const* slots_of;
  int64_t has_absent;
  double a, b, absent;

  bool forgets() const { return used_at >= 0; }

  int64_t row_bytes() const { return dim * (half ? 2 : 4); }  // of an embedding; of its gradient: GradientRowBytes

  int64_t parts_of(int64_t ranks) const { return parts != 0 ? parts : ranks; }
  bool by_hosts() const { return near_parts != 0; }
  // How many numbers a lookup counts for its gradient.
  int64_t counted(int64_t ranks) const { return (by_hosts() ? 4 : 2) * ranks; }
  int64_t keys_of(int64_t ranks) const { return keys != 0 ? keys : parts_of(ranks) * rows; }
};

// When new rows of a member's table are stamped. Kept in step with lookup_run.py's NEW.
struct NewRows {
  int64_t ahead, at_least;
};

}  // namespace sok1x

#endif  // SOK1X_GROUPS_LOOKUP_FACTS_H
