// Ops that another process has built, and that a server of TensorFlow's has brought here.
//
// Where ranks have a tf.train.Server each, in one cluster, and a model names no device, TensorFlow 1.15 places all of
// it on the cluster's first task, whichever rank's session runs it. There the other ranks' lookups would be taken for
// that rank's own, and the other ranks would never come to theirs.
#ifndef SOK1X_BRIDGE_FOREIGN_H
#define SOK1X_BRIDGE_FOREIGN_H

#include "bridge_request.h"

namespace sok1x {

// An error where an op with this config (configs.py) is not this rank's: it is on a server's device, and another
// process has built it. A graph that was read from a file may be another's: it runs where it was read.
tf::Status OfThisRank(tf::OpKernelConstruction* construction, const Text& config);

}  // namespace sok1x

#endif  // SOK1X_BRIDGE_FOREIGN_H
