// A fused node in place of several nodes of ours: what it is made of, for bridge_fusing.cc.
//
// Of what its members are made of it leaves out what would cost TensorFlow time without use: handles of variables,
// which it knows by name (bridge_handles.h), and outputs that nobody reads. A lookup has six outputs, or eight by bag,
// of which an evaluation reads one. So one may be made of a single node, too: that keeps its type, and its name at the
// beginning of its own.
//
// Nodes may have one each that follows them: it alone reads what they make, as its first input behind its resources. Of
// these the fused node is, too. They begin when the others are done, and TensorFlow need not hear of that first: it
// would take two threads to wake each other, some 100 us on a GPU's machine.
#ifndef SOK1X_BRIDGE_FUSED_NODE_H
#define SOK1X_BRIDGE_FUSED_NODE_H

#include <set>
#include <string>
#include <vector>

#include "tensorflow/core/graph/graph.h"

#include "bridge_handles.h"

namespace sok1x {

typedef std::vector<tf::Node*> Nodes;

class FusedNode {
 public:
  // Puts the fused node, *made, in place of `nodes`, which are of one function and device and could run at the same
  // time; those of `keep_sums` keep their sums (groups/kept_sums.h). followers: one for each, likewise, or none.
  tf::Status Replace(const Nodes& nodes, const Nodes& followers, const std::set<tf::Node*>& keep_sums,
                     tf::Graph* graph, tf::Node** made);

  // Whether one node alone gains by it: the handles of its variables need not run.
  static bool Gains(const tf::Node& node);

 private:
  // follower: the node that follows it, or null. follows: which of those that have been added, or -1.
  tf::Status Add(const tf::Node& node, const tf::Node* follower, tf::int64 follows, bool keeps_sums);
  // Once all nodes have been added.
  void Place();
  tf::Status Make(const tf::Node& like, tf::Graph* graph, tf::Node** made) const;
  // Moves the edges of the n-th node to the fused one, but for what its follower reads; inputs: of each span what comes
  // before the node's; outputs: how many outputs do.
  void Move(tf::Node* node, size_t n, const int* inputs, size_t outputs, tf::Graph* graph, tf::Node* fused) const;
  // A name of its own for all that the kernel is made of: TensorFlow keeps a session's kernels by their names.
  tf::string Name() const;
  bool alone() const { return labels_.size() == 1; }

  // What the nodes have, one after the other.
  std::vector<tf::string> labels_, functions_, configs_;
  std::vector<tf::int64> signatures_, follows_, counts_, places_;
  std::vector<bool> keep_sums_;
  tf::DataTypeVector types_[kSpans];  // of inputs and outputs that the fused node has
  tf::DataTypeVector output_types_;   // of all outputs
  Handles handles_;
};

}  // namespace sok1x

#endif  // SOK1X_BRIDGE_FUSED_NODE_H
