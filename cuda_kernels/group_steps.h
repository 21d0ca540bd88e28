// What is done with a group of tables, as C++ functions that are the same for the host and a GPU: each puts the
// members' records where kernels can read them, sets up scratch memory, and runs or launches the kernels of group_*.cu.
//
// graph_ops calls them through a table of pointers (`sok1x_group_steps`), as its library does not link with this one.
#ifndef SOK1X_GROUP_STEPS_H
#define SOK1X_GROUP_STEPS_H

#include <stddef.h>

#include "group_members.h"

struct GpuKernel;    // gpu_kernel.h
struct GroupDevice;  // host_group_device.h: a GPU

// Where a step runs, and whose memory it takes.
struct GroupWork {
  GroupDevice* device;  // null: the host
  // nbytes of scratch memory on the device, until all that the step belongs to has ended; null where there is none.
  void* (*allocate)(void* owner, i64 nbytes);
  void* owner;
};

// What steps return besides 0: CUDA's errors are above 0. GROUP_NO_MEMORY is in place of one; GROUP_TOO_MANY: more than
// 2**31 - 1 keys or rows.
enum GroupError { GROUP_NO_MEMORY = -1, GROUP_TOO_MANY = -2 };

struct GroupSteps {
  i64 nbytes;  // of this structure

  // Puts arrays where kernels can read them, in one copy; on the host they stay where they are.
  int (*place)(GroupWork* work, i64 count, const void* const* arrays, const i64* nbytes, void** placed);
  // Copies numbers that kernels have left to `to`. On a GPU it waits for the stream.
  int (*read)(GroupWork* work, const i64* from, i64 count, i64* to);
  // The same of `count` numbers that lie anywhere.
  int (*read_each)(GroupWork* work, const i64* const* from, i64 count, i64* to);
  // `ask` has numbers that kernels have left sent to where the host sees them; `answer` waits for the last that were
  // asked for, not for what has been launched since. Up to 4096 numbers at a time; of more `answer` is `read`.
  int (*ask)(GroupWork* work, const i64* from, i64 count);
  int (*answer)(GroupWork* work, const i64* from, i64 count, i64* to);
  // What the rest does is said where Python has it: group_find.py, group_gather.py, ...
  int (*find)(GroupWork* work, const FindMember* members, i64 count, i64* missing);
  // Then `initial` for `begins`, [n_begins], where there are such, and nobody asks for `missing`; else it asks before
  // values are copied. numbered: where it is not null, rows that are found are made distinct at once, as `unique` does,
  // and how many they are comes behind `missing`, [2, count].
  int (*look_up)(GroupWork* work, const FindMember* members, i64 count, i64* missing, const InitialMember* begins,
                 i64 n_begins, UniqueMember* numbered);
  // As find, and sums each bag's rows up, as combine. counts: [4, count]: of bag_offsets, and `missing`; it asks for
  // them before the sums. Only of batches that are as they must be sums are to be used; the host is to be given no
  // others. numbered: as above; counts are [5, count] then. starts: where it is not null, what bag_offsets does comes
  // first; but on a GPU `longest` is most + 1 where it is more than `most`.
  int (*look_up_bags)(GroupWork* work, const FindMember* members, i64 count, const CombineMember* bags, i64* counts,
                      UniqueMember* numbered, const BagsMember* starts);
  // The same on the host for batches, of float32 rows without weights, that have one key in each bag as far as sizes
  // say: members' n is bags' n_bags. Offsets are not looked at. counts: [2, count], whether they have not, and
  // `missing`. Of a member that has not, rows and sums are not to be used.
  int (*look_up_one_each)(GroupWork* work, const FindMember* members, i64 count, const BagsMember* bags, i64* counts);
  int (*initial)(GroupWork* work, const InitialMember* members, i64 count);
  int (*gather)(GroupWork* work, const GatherMember* members, i64 count);
  int (*unique)(GroupWork* work, UniqueMember* members, i64 count, i64* distinct);
  int (*partition)(GroupWork* work, const PartitionMember* members, i64 count, const i64* distinct, i64 ranks,
                   i64* counts, i64* sent);
  int (*pairs)(GroupWork* work, const PairsMember* members, i64 count);
  int (*bag_offsets)(GroupWork* work, const BagsMember* members, i64 count, i64* counts);
  int (*combine)(GroupWork* work, const CombineMember* members, i64 count);
  int (*sum_parts)(GroupWork* work, const PartsMember* members, i64 count);
  int (*segment_sum)(GroupWork* work, SumMember* members, i64 count);
  int (*weights)(GroupWork* work, const WeightsMember* members, i64 count);
  int (*stamp)(GroupWork* work, const StampMember* members, i64 count);
  // Gives new keys the next rows, in their order, with initial values, and stamps them: table after table.
  int (*insert)(GroupWork* work, const InsertMember* members, i64 count);
  // Lookups of tables that forget, one after the other.
  int (*touch)(GroupWork* work, const TouchMember* members, i64 count);
  // Their rows become -1, all of them.
  int (*leave_out)(GroupWork* work, const TouchMember* members, i64 count);
  int (*descend)(GroupWork* work, const UpdateMember* members, i64 count);
  int (*lazy_adam)(GroupWork* work, const UpdateMember* members, i64 count);
  // The same of rows whose gradients are the sums of `sums`, in one pass: where these would go there is nonsense
  // afterwards. The values of updates are those sums, too: where they are to be in the order of their terms, they are
  // made first.
  int (*sum_descend)(GroupWork* work, SumMember* sums, i64 count, const UpdateMember* updates);
  int (*sum_lazy_adam)(GroupWork* work, SumMember* sums, i64 count, const UpdateMember* updates);
  // How many kernels have run, or been launched, since the process began.
  i64 (*kernels)();
};

#endif  // SOK1X_GROUP_STEPS_H
