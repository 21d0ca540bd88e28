// How the nodes of a session.run's graph wait for each other, for the passes that change it.
//
// Each node has a level: how many of the ops that wait for other ranks, ours and Horovod's, come one after the other
// before it at most.
#ifndef SOK1X_BRIDGE_LEVELS_H
#define SOK1X_BRIDGE_LEVELS_H

#include <set>
#include <tuple>
#include <vector>

#include "tensorflow/core/graph/graph.h"

namespace sok1x {

namespace tf = ::tensorflow;

// Of each node, by its id: its level, and whether it always runs once.
class Levels {
 public:
  explicit Levels(const tf::Graph& graph);

  int level(const tf::Node& node) const { return levels_[node.id()]; }
  // Whether it waits for other ranks, or may: an op of ours or Horovod's.
  static bool Waits(const tf::Node& node);
  // Whether it always runs once: no cond may skip it and no loop repeat it.
  bool plain(const tf::Node& node) const { return !loops_[node.id()] && branches_[node.id()].empty(); }

 private:
  // The branches that must be taken for a node to run: what chooses (a node's id and output), and which branch.
  typedef std::set<std::tuple<int, int, int>> Branches;

  static void Insert(const Branches& from, Branches* to) { to->insert(from.begin(), from.end()); }

  // What must be taken for something to come along an edge.
  Branches Along(const tf::Edge& edge) const;
  // What both branches that a Merge joins ask for; false where they are not the two of one cond.
  bool Join(const tf::Node& merge, Branches* joined) const;

  std::vector<int> levels_;
  std::vector<bool> loops_;  // in a loop, after one, or after what is not understood
  std::vector<Branches> branches_;
};

}  // namespace sok1x

#endif  // SOK1X_BRIDGE_LEVELS_H
