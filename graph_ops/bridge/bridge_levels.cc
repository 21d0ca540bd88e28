// See bridge_levels.h.
#include "bridge_levels.h"

#include <algorithm>
#include <string>

#include "tensorflow/core/graph/algorithm.h"

#include "bridge_types.h"

namespace sok1x {

Levels::Levels(const tf::Graph& graph)
    : levels_(graph.num_node_ids(), 0), loops_(graph.num_node_ids(), false), branches_(graph.num_node_ids()) {
  std::vector<tf::Node*> order;
  tf::GetReversePostOrder(graph, &order);
  for (const tf::Node* node : order) {
    const int id = node->id();
    bool looped = node->IsEnter() || node->IsNextIteration();
    for (const tf::Edge* edge : node->in_edges()) {
      const tf::Node& from = *edge->src();
      looped = looped || loops_[from.id()];
      levels_[id] = std::max(levels_[id], levels_[from.id()] + (Waits(from) ? 1 : 0));
      // One input is enough for a Merge.
      if (!node->IsMerge()) Insert(Along(*edge), &branches_[id]);
    }
    if (node->IsMerge()) looped = !Join(*node, &branches_[id]) || looped;
    loops_[id] = looped;
  }
}

bool Levels::Waits(const tf::Node& node) {
  return IsOurs(node.type_string()) || node.type_string().find("Horovod") == 0;
}

Levels::Branches Levels::Along(const tf::Edge& edge) const {
  Branches branches = branches_[edge.src()->id()];
  const tf::Edge* chooses = nullptr;
  if (edge.src()->IsSwitch() && !edge.IsControlEdge() && edge.src()->input_edge(1, &chooses).ok()) {
    // A cond's first Switch is given what the others have through an Identity.
    while (chooses->src()->IsIdentity() && chooses->src()->input_edge(0, &chooses).ok()) {
    }
    branches.insert(std::make_tuple(chooses->src()->id(), chooses->src_output(), edge.src_output()));
  }
  return branches;
}

bool Levels::Join(const tf::Node& merge, Branches* joined) const {
  std::vector<Branches> in;
  for (const tf::Edge* edge : merge.in_edges()) {
    if (!edge->IsControlEdge()) in.push_back(Along(*edge));
  }
  if (in.size() != 2) return false;
  for (const auto& branch : in[0]) {
    const auto other = std::make_tuple(std::get<0>(branch), std::get<1>(branch), 1 - std::get<2>(branch));
    if (in[1].count(other) == 0) continue;
    in[0].erase(std::tuple<int, int, int>(branch));
    in[1].erase(other);
    *joined = in[0];
    return in[0] == in[1];
  }
  return false;
}

}  // namespace sok1x
