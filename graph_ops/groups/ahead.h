// Rows that a lookup which trains has made distinct itself, ahead of the op that is there for it (operations/
// distinct_rows.py). On a GPU that op would have to wait for the host to read how many they are, behind all that the
// lookup has enqueued; a lookup waits for its keys anyway, and reads that number with them.
//
// Only where that op has run for the table's last lookup: who asks for no gradient does not pay.
#ifndef SOK1X_GROUPS_AHEAD_H
#define SOK1X_GROUPS_AHEAD_H

#include <cstdint>
#include <map>
#include <vector>

#include "../bridge/bridge_request.h"

namespace sok1x {

// For the executor's thread.
class Ahead {
 public:
  struct Made {
    int64_t step;        // TensorFlow's number of the session's run
    tf::Tensor rows;     // what has been made distinct: kept, so that nothing else comes to lie there
    tf::Tensor values;   // int64, the distinct rows at its front
    tf::Tensor inverse;  // int32, which of them each has
    int64_t count;       // how many there are
  };

  static Ahead* Get();

  // Whether lookups on hosts do it too, which gain nothing: for tests.
  void OnHosts(bool on) { on_hosts_ = on; }
  bool on_hosts() const { return on_hosts_; }
  // How often anything has been taken in this process, and how much waits to be.
  int64_t taken() const { return taken_; }
  int64_t waiting() const;

  // Whether a lookup of that run is to do it. What one before it has left, nobody has wanted: it goes. Tables are told
  // apart by one of their variables; it need not live.
  bool Wanted(const void* table, int64_t step);
  void Put(const void* table, Made made);
  // Gives what has been made of `length` rows at `rows` in that run; from now on it is wanted.
  bool Take(const void* table, int64_t step, const void* rows, int64_t length, Made* made);
  // A session has ended: nothing is kept.
  void Clear();

 private:
  struct Table {
    bool wanted = false;
    std::vector<Made> made;
  };
  std::map<const void*, Table> tables_;
  bool on_hosts_ = false;
  int64_t taken_ = 0;
};

}  // namespace sok1x

#endif  // SOK1X_GROUPS_AHEAD_H
