// Which steps are in flight that have looked up rows of a table, so that none of these rows is taken from its key.
//
// A step is one session.run. It is in flight from its first lookup of the table that may write until TensorFlow has
// ended it, however it ends: the step's container holds a resource of ours, and TensorFlow deletes the container then.
// Lookups of a table are counted; a step is known by the number of its first. A table is known by its rows' variable,
// so sessions that share variables know of one another.
//
// What runs eagerly, or in a function that is called from there, is in no step that TensorFlow would end. There a
// lookup is in flight for as long as anybody, as a tape, has the row numbers that it has found, or those of its
// gradient.
//
// Of no table, null: steps that change any, and when the last of these has ended (stores/step_times.py). Eagerly what
// stamps rows is such a step by itself, for as long as anybody has its row numbers or those of its gradient.
#ifndef SOK1X_BRIDGE_PINS_H
#define SOK1X_BRIDGE_PINS_H

#include <atomic>
#include <deque>
#include <mutex>
#include <set>
#include <unordered_map>

#include "bridge_request.h"
#include "bridge_shown_times.h"

namespace sok1x {

// A pause of so many microseconds without steps that change tables is worth a note. Kept in step with step_times.py.
constexpr int64_t kPause = 250000;

class Pins {
 public:
  static Pins* Get();

  // Counts a request as a lookup of the table of `rows`, and has its step be in flight from it on, unless it is
  // already.
  tf::Status Look(Request* request, const tf::Var* rows);

  // For a request that ends well: what is in flight because of it, or of row numbers among its inputs, stays in flight
  // as long as its own row numbers, outputs of int32.
  static void Keep(Request* request);

  // Of the table of `rows`: how many lookups have been counted after the first of the step that has been in flight for
  // the longest; -1 where no step is. *steps: how many are.
  int64_t Since(const tf::Var* rows, int64_t* steps);

  // Of the steps that change any table: the number of the last that has begun, and of the one that has been in flight
  // for the longest; 0 where none is.
  void Changing(int64_t* newest, int64_t* oldest);

  // When the last of these has ended, a moment in microseconds (bridge_clock.h); 0 where none has.
  int64_t ended() const { return ended_.load(); }

  // When one has ended last while no other was in flight; likewise.
  int64_t quiet() const { return quiet_.load(); }

  // Of these moments the last that a pause of kPause followed; likewise.
  int64_t paused() const { return paused_.load(); }

  // One of these moments after a time, 0 where none is known: the first, or one that is less than kPause later. The
  // older they get, the fewer are known.
  int64_t QuietAfter(int64_t time);

  // The earliest moment at which the clock, in microseconds since 1970, may have shown a time.
  int64_t MomentOf(int64_t time);

  // Whether an op's step is one that TensorFlow ends: not what runs eagerly.
  static bool EndsWithStep(const tf::OpKernelContext* context);

 private:
  friend class Pin;
  struct Flights {
    int64_t lookups = 0;
    std::multiset<int64_t> first;  // of each step in flight, the number of its first lookup
  };
  void Leave(const tf::Var* rows, int64_t first);
  // Counts a lookup, which begins its step or does not; under the mutex, as the next. The lookup's number.
  int64_t Begin(const tf::Var* rows, bool step);
  void KeepQuiet(int64_t time);
  // The moment, after a look at the clock; under the mutex.
  int64_t Now();

  std::mutex mutex_;
  // Those that steps in flight have looked up; and null, which stays, so that its numbers go on.
  std::unordered_map<const tf::Var*, Flights> tables_;
  std::atomic<int64_t> ended_{0}, quiet_{0}, paused_{0};
  std::deque<int64_t> kept_quiets_;  // ascending
  ShownTimes shown_;
};

}  // namespace sok1x

#endif  // SOK1X_BRIDGE_PINS_H
