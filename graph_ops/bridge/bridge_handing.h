// Between a fused node and many that read what it makes there is one that only hands it on.
//
// When an op of ours ends, the executor's thread calls TensorFlow, which gives each node that may run now to a thread
// of its own, and wakes it: a microsecond and more for each of hundreds of nodes, behind which the next op of ours
// waits, too. But where a node ends in a thread of TensorFlow's, those that follow it run in this thread, one after the
// other, as far as they are quick, as a GPU's are. So the executor gives TensorFlow one node, which gives the others.
#ifndef SOK1X_BRIDGE_HANDING_H
#define SOK1X_BRIDGE_HANDING_H

#include "tensorflow/core/graph/graph.h"

namespace sok1x {

namespace tf = ::tensorflow;

// Puts such a node, an IdentityN, behind a fused node, if there are many on its device that read it. Our own ops go on
// having from the fused node what it makes.
tf::Status HandOn(tf::Node* fused, tf::Graph* graph);

}  // namespace sok1x

#endif  // SOK1X_BRIDGE_HANDING_H
