// The lookups of many tables, by key or by bag, the distinct rows they leave and their gradients, as one: what
// groups/*.py decide is done here. A run is one group's, from its requests to just before they are answered; it
// allocates outputs, locks variables, fills the records of cuda_kernels/group_members.h, and has the steps of
// group_steps.h done. All its members are of one operation.
//
// T members, N ranks. Functions return a status code, and `error()` says then what was wrong; or kTooManyDimensions. A
// member that is `left` may have outputs, but what they hold says nothing: its operation does it again by itself.
#ifndef SOK1X_GROUPS_LOOKUP_RUN_H
#define SOK1X_GROUPS_LOOKUP_RUN_H

#include <string>
#include <vector>

#include "../../cuda_kernels/group_steps.h"
#include "../bridge/bridge_group.h"
#include "lookup_facts.h"
#include "lookup_run_kept.h"

namespace sok1x {

class LookupRun : private LookupRunKept {
 public:
  static constexpr int kTooManyDimensions = -1;  // of keys, and nothing is done

  // facts: [T], which must live as long as this. device: null for the host.
  LookupRun(Group* group, const LookupFacts* facts, const GroupSteps* steps, GroupDevice* device)
      : LookupRunKept(group, facts, steps, device) {}

  using LookupMembers::error;
  using LookupMembers::failed;

  // The status of a run whose tables were there when it was prepared, and are not any more, with words for it.
  int Gone();

  // ---- one rank

  // fresh: [T], out: how many distinct keys get rows by ForwardInsert, which must follow where there are any.
  int ForwardAlone(bool training, uint8_t* left, int64_t* fresh);
  int BackwardAlone(uint8_t* left);

  // ---- what bags are weighted with: operations/bag_weights.py

  int WeightsGradient(uint8_t* left);

  // ---- the op that makes rows distinct, on one rank or several

  // ahead, at_least: [T], as in STAMP; the latter is raised to the global step's next where there is one, and given
  // back. rows, counts: [T], out: where each member's distinct row numbers lie, and how many they are.
  int Distinct(bool alone, const int64_t* ahead, int64_t* at_least, int64_t* rows, int64_t* counts, uint8_t* left);

  // ---- several ranks; all arrays with a dimension of N or T are int64 and contiguous

  // Makes keys distinct and groups them by owner, or, by hosts, by the rank of this host that is to ask. headers:
  // [T, width], out: as devices.mark makes them. begins: [T, N], out: where the keys for each owner begin in *sent.
  // left: those that their own `prepare` has to look at. pairs: whether `PairsCount` is expected to follow, which then
  // has nothing to wait for.
  int Prepare(int ranks, bool training, bool pairs, int width, int64_t* headers, int64_t* begins, int64_t* sent,
              uint8_t* left);

  // given, taken: [T, N], keys that go to each rank, and come from it. numbers: [T], the decisions'. sent: [T], and
  // begins: [T, N], as `Prepare` gave them; whole: whether this is what one `Prepare` has left, all of it and in its
  // order. Out: what to exchange: two pointers and the bytes of a unit; and [N] each, in units, what goes to and comes
  // from each rank.
  int ForwardAsk(int rank, int ranks, const int64_t* given, const int64_t* taken, const int64_t* numbers,
                 const int64_t* sent, const int64_t* begins, bool whole, int64_t* pointers, int64_t* gives,
                 int64_t* takes);
  // Out: what to exchange, as above; missing [T]: keys that have no row and get none; fresh as for ForwardAlone.
  int ForwardAnswer(bool training, int64_t* missing, int64_t* fresh, int64_t* pointers, int64_t* gives,
                    int64_t* takes);
  // Inserts the keys that ForwardAlone or ForwardAnswer has found to be new, but for members that are left, and looks
  // their members' keys up again. rows: [T].
  int ForwardInsert(const NewRows* rows, const uint8_t* left);
  int ForwardTake(const uint8_t* left);

  // fits: [T], out: whether gradients fit their lookups. headers: [T, width], of which what the lookup has counted
  // becomes the last width - 2 numbers where they fit.
  int BackwardHeaders(int width, int64_t* headers, uint8_t* fits);
  // headers: [T, N, width] of all ranks, which end with the lookup's number, and if `counted` with 2 N counts before
  // it. left: [T], out: those in which ranks differ. The exchange is as `ForwardAnswer`'s.
  int BackwardSend(int rank, int ranks, int width, const int64_t* headers, bool counted, uint8_t* left,
                   int64_t* pointers, int64_t* gives, int64_t* takes);
  int BackwardTake();

  // From now on what `ForwardAnswer` and `BackwardSend` say is exchanged with other ranks alone: this rank's own part
  // is where it is to be. Not by hosts.
  void OwnIsThere() { own_there_ = true; }

  // What `ForwardAnswer` or `PairsAnswer` makes for other ranks may be made first, and be marked: lookup_run_sooner.cc.
  // fork: null, or what it is to be marked with. `sooner`: what has been; null where all is to be waited for.
  void MaySendSooner(const Fork* fork) { fork_ = fork; }
  const Fork* sooner() const { return sooner_ ? fork_ : nullptr; }

  // ---- by reduce_scatter, in all members: lookup_run_sums.cc

  // After `Prepare`. Groups all keys by owner. keys_at: [T], where int64 keys are that a member's own `prepare` has
  // brought in order, else 0. told: [2 T, N], out: of each member the keys for each rank, and then, for each, its bags.
  int PairsCount(int ranks, const int64_t* keys_at, int64_t* told);
  // heard: as told, by each rank to this one. Out: what to exchange, as ForwardAsk's.
  int PairsAsk(int rank, const int64_t* told, const int64_t* heard, const int64_t* numbers, int64_t* pointers,
               int64_t* gives, int64_t* takes);
  // As ForwardAnswer, ForwardInsert follows likewise; what is to be exchanged are partial sums for other ranks.
  int PairsAnswer(bool training, int64_t* missing, int64_t* fresh, int64_t* pointers, int64_t* gives, int64_t* takes);
  int SumsTake(const uint8_t* left);
  // headers: [T, N, width] of all ranks, whose last `saved` numbers are what lookups have saved. left: [T], out: those
  // in which ranks differ. Out: what all are to have: two pointers and the bytes of a unit, and in takes [N] units of
  // each rank.
  int GradientsSend(int rank, int ranks, int width, int saved, const int64_t* headers, uint8_t* left, int64_t* pointers,
                    int64_t* takes);
  int GradientsTake();
  // Of a gradient's member t, what its lookup has saved: bags of each rank.
  const int64_t* BagsOfRanks(int t) const;

  // ---- by hosts, in all members: lookup_run_hosts.cc. Rows that this rank asks others of its host for, or gives them
  // for others, are `near`.

  // Before ForwardAsk, which follows NearRelay. given, taken: [T, N], keys that go to, and come from, ranks of this
  // host. sent, begins, whole, and what is to be exchanged, as ForwardAsk's.
  int NearAsk(int ranks, const int64_t* given, const int64_t* taken, const int64_t* sent, const int64_t* begins,
              bool whole, int64_t* pointers, int64_t* gives, int64_t* takes);
  // Makes what has come distinct. Out, as Prepare's: counts [T, N], keys for each owner; begins, sent [T].
  int NearRelay(int64_t* counts, int64_t* begins, int64_t* sent);
  // After what ForwardAnswer has said is exchanged, and before ForwardTake: the rows for ranks of this host.
  int NearAnswer(int64_t* pointers, int64_t* gives, int64_t* takes);
  // After what BackwardSend has said, with the near counts in the headers, is exchanged, and before BackwardTake: sums
  // for the owners.
  int NearSum(int64_t* pointers, int64_t* gives, int64_t* takes);
  // Of a gradient's member t, what its lookup has counted: given, taken, [N] each, by hosts these two of its own host
  // before them.
  const int64_t* Counted(int t) const;

 private:
  // ---- lookup_run.cc

  int Embeddings(int t, void** data);
  // slots: whether those that optimizers keep for tables that forget are locked too.
  int Lock(bool exclusive, bool slots = false);
  // Fills batches_. Returns false where embeddings cannot have one dimension more than some member's keys.
  bool TakeBatches();
  // Batches fit no more where their table's rows are not its own, and batches of int64 keys where one is beyond the
  // type of its table's keys: see stores/row_checks.py, stores/key_types.py.
  int CheckBatches();
  // How many keys each member has; 0 where its batch is not taken.
  std::vector<int64_t> KeysThatFit() const;
  // A member's bags as they are given, without where they begin.
  BagsMember GivenBags(int t) const;
  // Finds where bags begin, of members that are not `one_each_`, counts: [3 T], as group_bags.offsets; `offsets_` are
  // where. BagsToStart: what that is done of.
  int StartBags(i64* counts);
  std::vector<BagsMember> BagsToStart() const;
  // Makes the outputs that a lookup with weights has besides, and says of a member's bags how they are weighted.
  int Weigh(int t, CombineMember* bags);
  // Leaves what says that such a lookup's bags are in order, unless its own `prepare` has left what order they are in.
  int LeaveInOrder(int t);
  int Gather(const std::vector<GatherMember>& rows);
  // Batches whose bags are not in order, or too long, fit no more; counts: what StartBags has counted, on the host.
  void CheckBags(const i64* counts);
  // Where found_[t] finds rows and their values, once variables are locked.
  void Open(int t);
  // Memory for what is to be exchanged; `Place` must follow, once it is as it is to be.
  int Make(Buffer* buffer, int ranks, int64_t unit, const std::vector<int64_t>& counts,
           const std::vector<int64_t>& row_bytes);
  int Place(Buffer* buffer);
  int MakeKeys(Buffer* buffer, int ranks, const std::vector<int64_t>& counts);
  // Keys as `Prepare` has left them, in the order in which they are sent; given: [T, N].
  int Collect(int ranks, const std::vector<int64_t>& given, const int64_t* sent, const int64_t* begins, bool whole,
              Buffer* collected);
  // Sums that go to other ranks: in `values_`, of members without num_segments none.
  int SumForOthers(std::vector<SumMember>* members);
  // Memory for rows: `values_` for those that this rank asks for, and sums for their owners; `answers_` for those that
  // it is asked for. given, taken: [T, N], rows of these two. sent: which of both is to be sent, where what this rank
  // would send itself may be put into the other at once: see OwnIsThere.
  int MakeRows(int ranks, const std::vector<int64_t>& given, const std::vector<int64_t>& taken,
               const std::vector<int64_t>& row_bytes, Buffer* sent);

  // ---- lookup_run_alone.cc

  int OutputsAlone(int t);
  // Looks all members' keys up, `found_`: of members for which there is nothing to be done n = 0. counts_: how many
  // have no row.
  int LookUpKeys(bool training);
  // Whether what an evaluation reads for keys without a row is a function of the keys, for all members, and no key has
  // to be refused: then nobody need know whether there are such.
  bool AllBegin() const;
  std::vector<InitialMember> Begins() const;
  int LookUpBags(bool training);
  // Of those that are not `one_each_`. ahead: whether `ahead_` is wanted.
  int LookUpOtherBags(bool ahead);
  // Where a gradient to weights asks for the rows of a member's keys: adds what copies them, of the table.
  void Keep(int t, std::vector<GatherMember>* rows) const;

  // ---- lookup_run_one_each.cc

  // Whether each bag of a member's batch may have one key, as far as sizes say, and that is to be tried first.
  bool MayBeOneEach(int t) const;
  // Looks keys up of those that do have one each, `one_each_`. Others get outputs for where their bags begin.
  int LookUpOneEach();
  // Of a member that is `one_each_`, says where its bags begin, if it is asked.
  int LeaveOneEach(int t);

  // Whether each bag of a gradient's member has one key, on the host: its terms are then as where there are no bags.
  bool GradientOfOneEach(int t) const;

  // ---- lookup_run_ahead.cc

  const void* TableOf(int t) const;
  // Whether rows that are found are to be made distinct at once, of any member: `ahead_`.
  bool StartAhead();
  // distinct: [T], how many each member has.
  void CountAhead(const int64_t* distinct);
  // Leaves them for `Distinct`, of members that are not left: their own `run` may write other rows in the same place.
  void PutAhead(const uint8_t* left);
  // Of members whose rows have been made distinct: their counts, values, and their output. Returns how many rows others
  // have; these are their keys.
  int64_t TakeAhead(bool alone, int64_t* counts, std::vector<UniqueMember>* members);

  // ---- lookup_run_ranks.cc

  // What finds the keys that a member has received, once variables are locked.
  void FindReceived(int t);
  // Finds keys; asks: for `missing`, how many have no row, and behind it how many rows are distinct where `ahead_` is.
  int Find(const std::vector<FindMember>& members, i64* missing, bool asks);
  // After they have been looked up, with this status code: what keys have no row, `counts_`, and what `Unseen` makes of
  // them; variables stay locked where there is something to insert.
  int Answered(int code, int64_t* missing, int64_t* fresh);

  // ---- lookup_run_sums.cc

  // Groups all keys by owner, counted: [N, T], out.
  int StartPairs(int ranks, const int64_t* keys_at, i64* counted);
  // Memory for partial sums, `values_` [rank][member][bags], this rank's own behind all others, and for those that come
  // from others, `answers_`.
  int MakeSums();
  // Finds keys, and sums the rows of bags up; asks: for `missing`, how many have no row.
  int FindAndSum(const std::vector<FindMember>& members, const std::vector<CombineMember>& bags, i64* missing,
                 bool asks);

  // ---- lookup_run_sooner.cc

  // What this rank reads of its tables for itself.
  int64_t OwnBytes() const;
  // Whether that is worth it.
  bool SendsSooner() const;
  // As steps_->look_up, and as `combine`; asks: for `missing`.
  int LookUpSooner(i64* missing, const std::vector<InitialMember>& begins, bool asks);
  int CombineSooner(const std::vector<CombineMember>& bags);

  // ---- lookup_run_new.cc

  // Of members with `missing` keys, those that can be inserted, as far as this rank knows: their distinct keys, and how
  // many are `fresh`; missing becomes 0.
  int Unseen(int64_t* missing, int64_t* fresh);

  // ---- lookup_run_forgetful.cc

  // Adds the slots of tables that forget to their members' variables, so that they are locked too.
  void ReachSlots();
  bool AnyForgets() const;
  // Says what they are once they are locked, and lets the members go of them: the group holds them.
  void TakeSlots();
  // What an insertion has to know besides of a member whose table forgets. Returns false where it is for Python: rows
  // must leave first, or the table must grow.
  bool WhereFree(int t, int64_t lacking, int64_t given, int64_t free, InsertMember* insert) const;
  // Where a table that forgets counts its free rows.
  const i64* FreeOf(int t) const;
  // On the host, whether rows will have to leave, or the table to grow, if as many keys are new as last time: then a
  // member is left at once. A guess that is wrong costs time alone.
  bool LacksRoom(int t) const;
  UseMember UseOf(int t) const;
  i64* CountersOf(int t) const { return static_cast<i64*>(variable(t, facts_[t].counters_at).data); }
  // Whether TensorFlow says when the member's step ends, where its rows must stay until then.
  bool CanPin(int t) const;
  // Counts the training lookups of tables that forget, and pins their rows until their steps end; variables are locked.
  int Touch(const uint8_t* left);
  // The same on several ranks, once it is known who is left, unless it has been done.
  int TouchLate(const uint8_t* left);
  // Evaluations of such tables leave nothing for a gradient: they pin nothing.
  int LeaveNothing(const uint8_t* left);

  // ---- lookup_run_gradients.cc

  bool Fits(int t) const;
  // This rank's terms of a gradient, without where their sums go.
  SumMember Terms(int t) const;
  // The terms that a gradient's member has been sent; of a member that is left nothing to be done.
  void TakeTerms(int t, SumMember* m);
  // Sums terms up into the first outputs of their members, each of as many rows as it has, or leaves that to who reads
  // them. inputs: those in which terms lie. Of members that are left there is nothing to be done.
  int SumIntoOutputs(std::vector<SumMember>* members, std::initializer_list<int> inputs);
};

}  // namespace sok1x

#endif  // SOK1X_GROUPS_LOOKUP_RUN_H
