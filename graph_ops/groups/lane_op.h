// What the lane knows of an op before it runs.
#ifndef SOK1X_GROUPS_LANE_OP_H
#define SOK1X_GROUPS_LANE_OP_H

#include <cstdint>
#include <string>

#include "../bridge/told_step.h"
#include "lookup_facts.h"
#include "update_run.h"

namespace sok1x {

// What an op does. Kept in step with lane.py.
enum LaneKind { kLaneForward, kLaneDistinct, kLaneBackward, kLaneUpdate, kLaneWeights, kLaneSums };

// What Python and C++ both know of a table's clock: stores/clock_numbers.py says what these are.
enum ClockNumber { kRun, kStamped, kDue };

// What is counted of a table's lookups and exchanges: stores/figures.py says what these are.
enum Figure { kFigureKeys, kFigureDistinct, kFigureSent, kFigureReceived, kFigureWaited, kFigureExchanges };

constexpr size_t kTeamsRemembered = 1000;  // ops that have run together

// What is known of an op (a node in one session) before it runs. Kept in step with lane.py's _OP, of which a
// LaneOp there is one.
struct LaneOp {
  int64_t kind;
  int64_t team;      // requests whose ops have equal numbers may run together
  int64_t training;  // of a forward: -1 where its last host input says so
  int64_t alone;     // 1: on one rank
  int64_t note;      // of an op that makes rows distinct: whether they are what optimizers may use as they are
  int64_t table;     // its number (known_distinct.h)
  LookupFacts facts;
  // Of an optimizer's step:
  UpdateFacts update;
  const UpdateKernel* kernel;
  int64_t host_inputs;
  int64_t* counted;  // of the table's clock: kRun and so on
  int64_t* figures;  // of the table: kFigureKeys and so on
  ToldStep* graph;   // what its tables have been told in the session; or null
  // Of a GPU: our stream, an event, the context, and what steps know of it.
  void *stream, *event, *context, *device;
  // Of lookups, gradients and sums on several ranks, ranks > 1:
  int64_t ranks;
  int64_t met;  // 1: it has run on all of them, so rank 0 knows it
  int64_t one;  // 1: a single request goes this way too
  mutable int64_t went;  // by bag: by which exchange its last training run has gone, where it chooses that
  int64_t place;    // in the plan
  uint64_t digest;  // of the plan up to it
  int64_t session;  // this rank's number of it
  int64_t loops, tied;  // as Call.announced has it: how many loops it is in; 1: its instance has a tie
  int64_t average;  // of sums of dense tensors: 1: they are divided by the number of ranks
  const char* label;  // its name for messages where that is not the node's, as it runs at once; or null
};

// stores/clock.py: step_of_new. step: the run's.
inline NewRows StepOfNew(const LaneOp& op, int64_t step) {
  int64_t run = 0, last = 0;
  if (op.graph != nullptr) op.graph->Get(&run, &last);
  return {op.counted[kRun] == step ? 0 : 1, run == step ? last : last + 1};
}

// Makes the context of an op's GPU, if it has one, the thread's current one. Returns kInternal, with words, if CUDA
// refuses.
int EnterContext(const LaneOp& op, std::string* error);

}  // namespace sok1x

#endif  // SOK1X_GROUPS_LANE_OP_H
