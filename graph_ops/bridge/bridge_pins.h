// Which steps are in flight that have looked up rows of a table, so that none of these rows is taken from its key.
//
// A step is one session.run. It is in flight from its first lookup of the table that may write until TensorFlow has
// ended it, however it ends: the step's container holds a resource of ours, and TensorFlow deletes the container then.
// Lookups of a table are counted; a step is known by the number of its first. A table is known by its rows' variable,
// so sessions that share variables know of one another.
#ifndef SOK1X_BRIDGE_PINS_H
#define SOK1X_BRIDGE_PINS_H

#include <mutex>
#include <set>
#include <unordered_map>

#include "bridge_request.h"

namespace sok1x {

class Pins {
 public:
  static Pins* Get();

  // Counts a lookup of the table of `rows`, and has its step be in flight from it on, unless it is already.
  tf::Status Look(tf::OpKernelContext* context, const tf::Var* rows);

  // Of the table of `rows`: how many lookups have been counted after the first of the step that has been in flight for
  // the longest; -1 where no step is. *steps: how many are.
  int64_t Since(const tf::Var* rows, int64_t* steps);

 private:
  friend class Pin;
  struct Flights {
    int64_t lookups = 0;
    std::multiset<int64_t> first;  // of each step in flight, the number of its first lookup
  };
  void Leave(const tf::Var* rows, int64_t first);

  std::mutex mutex_;
  std::unordered_map<const tf::Var*, Flights> tables_;  // those that steps in flight have looked up
};

}  // namespace sok1x

#endif  // SOK1X_BRIDGE_PINS_H
