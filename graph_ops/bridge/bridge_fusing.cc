// Of a model's many tables each lookup, each gradient and each optimizer's step is an op, and what TensorFlow does to
// run an op and to go on after it costs more than the op's share of a group of requests (on a GPU's machine 10 us).
// So in the graph that TensorFlow makes for a session.run, ops of ours that could run at the same time become one node,
// a fused one (of type Sok1xLookups, …), which hands over a request for each of them. One that is alone of its kind
// is made anew as such a node is, without the handles of its variables and outputs that nobody reads.
//
// Ops could run at the same time if neither needs the other. Each op has a level: how many of the ops that wait for
// other ranks, ours and Horovod's, come one after the other before it at most. Those of one level do not need each
// other; and since no way leads to a lower level, nodes made of one level each need each other in one direction alone.
// They also run at the same time if ranks make different nodes, which may be if they fetch different things: each waits
// only for what comes before an op of its level, never for one of its own level. But what comes behind an op waits for
// all of its node: ranks that cut the same steps into other session.runs may wait for each other so, and are told.
//
// A gradient of rows whose sums are left to an optimizer's step becomes one node with that step (bridge_fused_node.h)
// where the step waits for nothing else of ours.
//
// What a cond may skip or a loop repeats stays as it is, and so does what comes after a loop; also in the graphs of
// functions, and in those whose inputs come one after the other (Session.partial_run). What comes after a cond, such as
// the one in every tf.debugging.assert, runs whatever branch was taken.
#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "tensorflow/core/common_runtime/optimization_registry.h"
#include "tensorflow/core/framework/node_def_util.h"
#include "tensorflow/core/graph/graph.h"

#include "bridge_fused_node.h"
#include "bridge_handing.h"
#include "bridge_levels.h"
#include "bridge_passes.h"
#include "bridge_types.h"

namespace sok1x {
namespace {

bool Is(const std::string& function, std::initializer_list<const char*> names) {
  return std::find(names.begin(), names.end(), function) != names.end();
}

// Whether what comes along an edge may lie in the memory of a variable that is no resource: assigning to such a one
// changes what those have who have read it already. (What reads a resource keeps its values: assigning copies then.)
// Of TensorFlow's ops those that may hand on the memory of what they are given, others have made some of their own.
bool MayLieInVariable(const tf::Edge& edge) {
  static const std::set<std::string> kHandOn = {
      "AddN", "Bitcast", "BroadcastTo", "Cast", "CheckNumerics", "Concat", "ConcatV2", "ConjugateTranspose",
      "EnsureShape", "Enter", "EuclideanNorm", "Exit", "ExpandDims", "GuaranteeConst", "Identity", "IdentityN",
      "MatrixBandPart", "Max", "Mean", "Merge", "Min", "MirrorPad", "NextIteration", "Pack", "Pad", "PadV2",
      "PartitionedCall", "PlaceholderWithDefault", "PreventGradient", "Print", "Prod", "RandomShuffle", "Reshape",
      "Reverse", "ReverseV2", "Slice", "Snapshot", "Split", "SplitV", "Squeeze", "StatefulPartitionedCall",
      "StopGradient", "StridedSlice", "Sum", "Switch", "Tile", "Transpose", "Unpack"};
  std::vector<const tf::Edge*> look = {&edge};
  std::set<const tf::Node*> seen;
  while (!look.empty()) {
    const tf::Edge& along = *look.back();
    look.pop_back();
    if (along.IsControlEdge()) continue;
    const tf::Node& from = *along.src();
    if (tf::IsRefType(from.output_type(along.src_output()))) return true;
    if (kHandOn.count(from.type_string()) == 0 || !seen.insert(&from).second) continue;
    look.insert(look.end(), from.in_edges().begin(), from.in_edges().end());
  }
  return false;
}

// Whether a node only hands on what it is given, as soon as it is given it.
bool HandsOn(const tf::Node& node) {
  return node.IsIdentity() && std::none_of(node.in_edges().begin(), node.in_edges().end(), [](const tf::Edge* edge) {
           return edge->IsControlEdge() && !edge->src()->IsSource();
         });
}

// What gives an edge its tensor, where nodes that only hand it on are left out.
const tf::Node& Origin(const tf::Edge& edge) {
  const tf::Node* from = edge.src();
  const tf::Edge* in = nullptr;
  while (!edge.IsControlEdge() && HandsOn(*from) && from->input_edge(0, &in).ok()) from = in->src();
  return *from;
}

// Whether a step may begin as soon as its gradient has been made: all else that it waits for is there before any op of
// ours has run, or comes from where the gradient has its inputs. And nothing else waits for the gradient.
bool MayFollow(const tf::Node& step, const tf::Node& gradient, const Levels& levels) {
  std::set<const tf::Node*> before;
  for (const tf::Edge* edge : gradient.in_edges()) before.insert(&Origin(*edge));
  for (const tf::Edge* edge : gradient.out_edges()) {
    if (edge->dst() != &step || edge->IsControlEdge()) return false;
  }
  for (const tf::Edge* edge : step.in_edges()) {
    if (edge->src() == &gradient) continue;
    const tf::Node& from = Origin(*edge);
    if (before.count(&from) > 0) continue;
    if (levels.level(*edge->src()) > 0 || Levels::Waits(*edge->src())) return false;
  }
  return true;
}

// Of nodes of ours those that are gradients of rows which one optimizer's step reads, as it reads gradients, and nobody
// else (groups/kept_sums.h), and these steps; both always run once, on one device. What the gradients are made of stays
// as it is meanwhile. followers: of these gradients the steps that may follow them in one node.
tf::Status FindKeptSums(const Nodes& ours, const Levels& levels, std::set<tf::Node*>* kept,
                        std::map<const tf::Node*, tf::Node*>* followers) {
  const std::set<tf::Node*> all(ours.begin(), ours.end());
  for (tf::Node* node : ours) {
    Text function, reads;
    TF_RETURN_IF_ERROR(tf::GetNodeAttr(node->attrs(), "function", &function));
    if (!Is(function, {"operations.dense_lookup.backward", "operations.combined_lookup.backward"}) ||
        node->num_outputs() != 1 || !levels.plain(*node)) {
      continue;
    }
    const tf::Edge* only = nullptr;
    int readers = 0;
    for (const tf::Edge* edge : node->out_edges()) {
      if (edge->IsControlEdge()) continue;
      only = edge;
      ++readers;
    }
    tf::int64 resources = 0;
    if (readers != 1 || all.count(only->dst()) == 0 || !levels.plain(*only->dst()) ||
        only->dst()->assigned_device_name() != node->assigned_device_name()) {
      continue;
    }
    TF_RETURN_IF_ERROR(tf::GetNodeAttr(only->dst()->attrs(), "function", &reads));
    TF_RETURN_IF_ERROR(tf::GetNodeAttr(only->dst()->attrs(), "Nr", &resources));
    if (Is(reads, {"operations.gradient_descent.step", "operations.adam.lazy_step"}) &&
        only->dst_input() == resources &&
        std::none_of(node->in_edges().begin(), node->in_edges().end(),
                     [](const tf::Edge* edge) { return MayLieInVariable(*edge); })) {
      kept->insert(node);
      kept->insert(only->dst());
      if (MayFollow(*only->dst(), *node, levels)) (*followers)[node] = only->dst();
    }
  }
  return tf::Status();
}

class FusingPass : public tf::GraphOptimizationPass {
 public:
  tf::Status Run(const tf::GraphOptimizationPassOptions& options) override {
    tf::Graph* const graph = GraphToChange(options);
    if (graph == nullptr) return tf::Status();
    Nodes ours;
    for (tf::Node* node : graph->op_nodes()) {
      bool fuse = false, client = false;
      if (node->IsRecv() && tf::GetNodeAttr(node->attrs(), "client_terminated", &client).ok() && client) {
        return tf::Status();
      }
      if (!IsOurs(node->type_string())) continue;
      if (tf::GetNodeAttr(node->attrs(), "fuse", &fuse).ok() && fuse) ours.push_back(node);
    }
    if (ours.empty()) return tf::Status();
    const Levels levels(*graph);
    std::set<tf::Node*> kept;
    std::map<const tf::Node*, tf::Node*> followers;
    TF_RETURN_IF_ERROR(FindKeptSums(ours, levels, &kept, &followers));
    std::set<const tf::Node*> follow;
    for (const auto& each : followers) follow.insert(each.second);
    std::map<std::tuple<int, Text, std::string>, Nodes> together;
    for (tf::Node* node : ours) {
      Text function, next;
      TF_RETURN_IF_ERROR(tf::GetNodeAttr(node->attrs(), "function", &function));
      if (!levels.plain(*node) || follow.count(node) > 0) continue;
      const auto follower = followers.find(node);
      if (follower != followers.end()) {
        TF_RETURN_IF_ERROR(tf::GetNodeAttr(follower->second->attrs(), "function", &next));
        function += " " + next;
      }
      together[std::make_tuple(levels.level(*node), function, node->assigned_device_name())].push_back(node);
    }
    Nodes made;
    for (auto& each : together) {
      Nodes& nodes = each.second;
      if (nodes.size() < 2 && kept.count(nodes[0]) == 0 && !FusedNode::Gains(*nodes[0])) continue;
      // In one order whatever a graph's nodes come in.
      std::sort(nodes.begin(), nodes.end(), [](tf::Node* a, tf::Node* b) { return a->name() < b->name(); });
      Nodes next;
      for (tf::Node* node : nodes) {
        const auto follower = followers.find(node);
        if (follower != followers.end()) next.push_back(follower->second);
      }
      tf::Node* fused = nullptr;
      TF_RETURN_IF_ERROR(FusedNode().Replace(nodes, next, kept, graph, &fused));
      made.push_back(fused);
    }
    for (tf::Node* fused : made) TF_RETURN_IF_ERROR(HandOn(fused, graph));
    return tf::Status();
  }
};

// After the pass of bridge_signature.cc.
REGISTER_OPTIMIZATION(tf::OptimizationPassRegistry::POST_REWRITE_FOR_EXEC, 1, FusingPass);

}  // namespace
}  // namespace sok1x
