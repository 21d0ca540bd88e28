// Where TensorFlow goes on once an op of ours is done.
//
// A step gives what it has to run to its runner. As a rule that is a pool of threads, and who calls an op's `done` is
// back at once. But a session may run its steps in the thread that calls session.run (inter_op_parallelism_threads or
// TF_NUM_INTEROP_THREADS -1, RunOptions.inter_op_thread_pool -1): its runner runs at once what it is given, so what
// follows an op would run inside `done`, in the executor's thread. A py_func there that runs another session would wait
// for a lookup that waits for this thread, for ever; and other ranks would wait for this rank's model.
#ifndef SOK1X_BRIDGE_RUNNER_H
#define SOK1X_BRIDGE_RUNNER_H

#include "tensorflow/core/framework/op_kernel.h"

namespace sok1x {

namespace tf = ::tensorflow;

// What the executor may call in place of `done`: that, or where the step's runner runs at once what it is given, what
// calls it in a thread of its own.
tf::AsyncOpKernel::DoneCallback OutsideExecutor(tf::OpKernelContext* context, tf::AsyncOpKernel::DoneCallback done);

}  // namespace sok1x

#endif  // SOK1X_BRIDGE_RUNNER_H
