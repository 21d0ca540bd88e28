// What a step's lookups do not need comes after what they need.
//
// TensorFlow begins a session.run with all nodes that need nothing, handles of variables and constants, one after the
// other in one thread, and only then comes to what needs these: a lookup waits for the optimizer's constants and for
// the handles of all dense layers. On a GPU's machine each takes 4 us, on a host half of one; the GPU has nothing to do
// meanwhile. So in the graph that TensorFlow makes for a session.run these wait for one of the nodes that the first
// lookups get their ids from: they run while the executor's own thread is busy with the lookups.
//
// Only where those ids are there at once, in variables or fed, on the device of what waits: where they come from an
// input pipeline or another device, nodes that need nothing run while the ids are on their way.
#include <algorithm>
#include <iterator>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "tensorflow/core/common_runtime/optimization_registry.h"
#include "tensorflow/core/framework/node_def_util.h"
#include "tensorflow/core/graph/graph.h"

#include "bridge_levels.h"
#include "bridge_passes.h"
#include "bridge_types.h"

namespace sok1x {
namespace {

typedef std::vector<tf::Node*> Nodes;

bool Is(const tf::Node& node, const std::set<std::string>& types) { return types.count(node.type_string()) > 0; }

// Whether the node needs nothing and takes no time.
bool CanWait(const tf::Node& node) {
  static const std::set<std::string> kTypes = {"Const", "HostConst", "VarHandleOp", "VariableV2"};
  return Is(node, kTypes) && std::all_of(node.in_edges().begin(), node.in_edges().end(),
                                         [](const tf::Edge* edge) { return edge->src()->IsSource(); });
}

// Adds a node and all that it needs to `needed`, whose nodes' own needs are there. Ends, with false, at one of which
// `goes_on` says no.
template <class GoesOn>
bool AddNeeded(const tf::Node& node, std::set<const tf::Node*>* needed, const GoesOn& goes_on) {
  std::vector<const tf::Node*> look = {&node};
  while (!look.empty()) {
    const tf::Node* const at = look.back();
    look.pop_back();
    if (at->IsSource() || !needed->insert(at).second) continue;
    if (!goes_on(*at)) return false;
    for (const tf::Edge* edge : at->in_edges()) look.push_back(edge->src());
  }
  return true;
}

// Whether what the node gives is there at once, wherever it gets it from.
bool IsThere(const tf::Node& node) {
  static const std::set<std::string> kTypes = {"Const", "ExpandDims", "HostConst", "Identity", "ReadVariableOp",
                                               "Reshape", "Squeeze", "VarHandleOp", "VariableV2", "_Arg"};
  std::set<const tf::Node*> needed;
  return AddNeeded(node, &needed, [&node](const tf::Node& from) {
    return Is(from, kTypes) && from.assigned_device_name() == node.assigned_device_name();
  });
}

class FirstPass : public tf::GraphOptimizationPass {
 public:
  tf::Status Run(const tf::GraphOptimizationPassOptions& options) override {
    tf::Graph* const graph = GraphToChange(options);
    if (graph == nullptr) return tf::Status();
    Nodes lookups, others;
    for (tf::Node* node : graph->op_nodes()) {
      if (IsLookup(node->type_string())) lookups.push_back(node);
      if (CanWait(*node)) others.push_back(node);
    }
    if (lookups.empty() || others.empty()) return tf::Status();
    const Levels levels(*graph);
    std::set<const tf::Node*> needed;
    std::map<std::string, Nodes> givers;  // by their devices
    for (tf::Node* lookup : lookups) {
      if (levels.level(*lookup) > 0 || !levels.plain(*lookup)) continue;
      AddNeeded(*lookup, &needed, [](const tf::Node&) { return true; });
      tf::Node* const giver = Giver(*lookup);
      if (giver != nullptr) givers[giver->assigned_device_name()].push_back(giver);
    }
    for (const auto& of : givers) {
      Nodes wait;
      std::copy_if(others.begin(), others.end(), std::back_inserter(wait), [&](tf::Node* node) {
        return node->assigned_device_name() == of.first && needed.count(node) == 0;
      });
      if (!wait.empty()) TF_RETURN_IF_ERROR(Delay(wait, of.second, graph));
    }
    return tf::Status();
  }

 private:
  // The last of a lookup's inputs that is there at once, on its own device; null if none is.
  static tf::Node* Giver(const tf::Node& lookup) {
    tf::Node* giver = nullptr;
    int last = -1;
    for (const tf::Edge* edge : lookup.in_edges()) {
      tf::Node* const from = edge->src();
      if (edge->dst_input() > last && from->output_type(edge->src_output()) != tf::DT_RESOURCE &&
          from->assigned_device_name() == lookup.assigned_device_name() && IsThere(*from)) {
        giver = from;
        last = edge->dst_input();
      }
    }
    return giver;
  }

  // Has nodes wait for `givers`. A node between them has the lookups, which may be the last of those that the givers
  // let go, come first for all that.
  static tf::Status Delay(const Nodes& nodes, const Nodes& givers, tf::Graph* graph) {
    const tf::Node& like = *givers[0];
    tf::NodeDef def;
    def.set_name(graph->NewName("sok1x_ids_are_there"));
    def.set_op("NoOp");
    def.set_device(like.requested_device());
    tf::Status status;
    tf::Node* const between = graph->AddNode(def, &status);
    TF_RETURN_IF_ERROR(status);
    between->set_assigned_device_name(like.assigned_device_name());
    for (tf::Node* giver : givers) graph->AddControlEdge(giver, between);
    for (tf::Node* node : nodes) graph->AddControlEdge(between, node);
    return tf::Status();
  }
};

// After the passes of bridge_fusing.cc and bridge_packing.cc.
REGISTER_OPTIMIZATION(tf::OptimizationPassRegistry::POST_REWRITE_FOR_EXEC, 3, FirstPass);

}  // namespace
}  // namespace sok1x
