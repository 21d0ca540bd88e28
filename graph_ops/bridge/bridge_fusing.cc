// Of a model's many tables each lookup, each gradient and each optimizer's step is an op, and what TensorFlow does to
// run an op and to go on after it costs more than the op's share of a group of requests (on a GPU's machine 10 us).
// So in the graph that TensorFlow makes for a session.run, ops of ours that could run at the same time become one node,
// a fused one (of type Sok1xLookups, …), which hands over a request for each of them.
//
// Ops could run at the same time if neither needs the other. Each op has a level: how many of the ops that wait for
// other ranks, ours and Horovod's, come one after the other before it at most. Those of one level do not need each
// other; and since no way leads to a lower level, nodes made of one level each need each other in one direction alone.
// They also run at the same time if ranks make different nodes, which may be if they fetch different things: each waits
// only for what comes before an op of its level, never for one of its own level.
//
// A fused node knows its variables by their names (bridge_handles.h), so that the nodes of their handles need not run.
//
// What a cond may skip or a loop repeats stays as it is, and so does what comes after a loop; also in the graphs of
// functions, and in those whose inputs come one after the other (Session.partial_run). What comes after a cond, such as
// the one in every tf.debugging.assert, runs whatever branch was taken.
#include <algorithm>
#include <cstdlib>
#include <map>
#include <set>
#include <string>
#include <tuple>
#include <unordered_map>
#include <vector>

#include "tensorflow/core/common_runtime/optimization_registry.h"
#include "tensorflow/core/framework/node_def_util.h"
#include "tensorflow/core/graph/algorithm.h"
#include "tensorflow/core/graph/graph.h"
#include "tensorflow/core/lib/hash/hash.h"
#include "tensorflow/core/lib/strings/strcat.h"

#include "bridge_handles.h"
#include "bridge_request.h"
#include "bridge_types.h"

namespace sok1x {
namespace {

typedef std::vector<tf::Node*> Nodes;

// The branches that must be taken for a node to run: what chooses (a node's id and output), and which branch.
typedef std::set<std::tuple<int, int, int>> Branches;

// Of each node, by its id: its level, and whether it always runs once.
class Levels {
 public:
  explicit Levels(const tf::Graph& graph)
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

  int level(const tf::Node& node) const { return levels_[node.id()]; }
  bool plain(const tf::Node& node) const { return !loops_[node.id()] && branches_[node.id()].empty(); }

 private:
  static bool Waits(const tf::Node& node) {
    return IsOurs(node.type_string()) || node.type_string().find("Horovod") == 0;
  }

  static void Insert(const Branches& from, Branches* to) { to->insert(from.begin(), from.end()); }

  // What must be taken for something to come along an edge.
  Branches Along(const tf::Edge& edge) const {
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

  // What both branches that a Merge joins ask for; false where they are not the two of one cond.
  bool Join(const tf::Node& merge, Branches* joined) const {
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

  std::vector<int> levels_;
  std::vector<bool> loops_;  // in a loop, after one, or after what is not understood
  std::vector<Branches> branches_;
};

class FusingPass : public tf::GraphOptimizationPass {
 public:
  tf::Status Run(const tf::GraphOptimizationPassOptions& options) override {
    const char* chosen = std::getenv("SOK1X_FUSE");
    if (options.graph == nullptr || *options.graph == nullptr || options.session_options == nullptr ||
        (chosen != nullptr && std::string(chosen) == "0")) {
      return tf::Status();
    }
    tf::Graph* const graph = options.graph->get();
    Nodes ours;
    for (tf::Node* node : graph->op_nodes()) {
      bool fuse = false, client = false;
      if (node->IsRecv() && tf::GetNodeAttr(node->attrs(), "client_terminated", &client).ok() && client) {
        return tf::Status();
      }
      if (!IsOurs(node->type_string())) continue;
      if (tf::GetNodeAttr(node->attrs(), "fuse", &fuse).ok() && fuse) ours.push_back(node);
    }
    if (ours.size() < 2) return tf::Status();
    const Levels levels(*graph);
    std::map<std::tuple<int, Text, std::string>, Nodes> together;
    for (tf::Node* node : ours) {
      Text function;
      TF_RETURN_IF_ERROR(tf::GetNodeAttr(node->attrs(), "function", &function));
      if (!levels.plain(*node)) continue;
      together[std::make_tuple(levels.level(*node), function, node->assigned_device_name())].push_back(node);
    }
    for (auto& each : together) {
      Nodes& nodes = each.second;
      if (nodes.size() < 2) continue;
      // In one order whatever a graph's nodes come in.
      std::sort(nodes.begin(), nodes.end(), [](tf::Node* a, tf::Node* b) { return a->name() < b->name(); });
      TF_RETURN_IF_ERROR(Fuse(nodes, graph));
    }
    return tf::Status();
  }

 private:
  // What the nodes have, one after the other.
  struct Lists {
    std::vector<tf::string> labels, functions, configs;
    std::vector<tf::int64> signatures, counts;
    tf::DataTypeVector types[kSpans];
    int first[kSpans];  // where a kernel's inputs and outputs of each kind begin
    Handles handles;

    tf::Status Add(const tf::Node& node) {
      const tf::AttrSlice attrs = node.attrs();
      Text function, config;
      tf::int64 signature, resources;
      tf::DataTypeVector of[kSpans];
      TF_RETURN_IF_ERROR(tf::GetNodeAttr(attrs, "function", &function));
      TF_RETURN_IF_ERROR(tf::GetNodeAttr(attrs, "config", &config));
      TF_RETURN_IF_ERROR(tf::GetNodeAttr(attrs, "signature", &signature));
      TF_RETURN_IF_ERROR(tf::GetNodeAttr(attrs, "Nr", &resources));
      TF_RETURN_IF_ERROR(tf::GetNodeAttr(attrs, "Tin", &of[kDeviceInputs]));
      TF_RETURN_IF_ERROR(tf::GetNodeAttr(attrs, "Thost_in", &of[kHostInputs]));
      TF_RETURN_IF_ERROR(tf::GetNodeAttr(attrs, "Tout", &of[kDeviceOutputs]));
      TF_RETURN_IF_ERROR(tf::GetNodeAttr(attrs, "Thost_out", &of[kHostOutputs]));
      of[kResources].assign(resources, tf::DT_RESOURCE);
      handles.Add(node, resources);
      labels.push_back(node.name());
      functions.push_back(function);
      configs.push_back(config);
      signatures.push_back(signature);
      for (int span = 0; span < kSpans; ++span) {
        counts.push_back(of[span].size());
        types[span].insert(types[span].end(), of[span].begin(), of[span].end());
      }
      return tf::Status();
    }

    // Once all nodes have been added. Resources that have names are no inputs.
    void Place() {
      if (handles.named()) types[kResources].clear();
      first[kResources] = first[kDeviceOutputs] = 0;
      first[kDeviceInputs] = types[kResources].size();
      first[kHostInputs] = first[kDeviceInputs] + types[kDeviceInputs].size();
      first[kHostOutputs] = types[kDeviceOutputs].size();
    }

    // A name of its own for all that the kernel is made of: TensorFlow keeps a session's kernels by their names.
    tf::string Name() const {
      tf::uint64 hash = labels.size();
      for (size_t i = 0; i < labels.size(); ++i) {
        hash = tf::Hash64Combine(hash, tf::Hash64(labels[i]));
        hash = tf::Hash64Combine(hash, tf::Hash64(configs[i]));
        hash = tf::Hash64Combine(hash, static_cast<tf::uint64>(signatures[i]));
      }
      hash = tf::Hash64Combine(hash, handles.named() ? 1 : 0);
      return tf::strings::StrCat("sok1x_calls/", functions[0], "_", tf::strings::Hex(hash));
    }
  };

  // Where input or output i of a node with these counts goes, spans first to last - 1 of it; at: of each span what
  // comes before the node's.
  static int PlaceOf(int i, const tf::int64* counts, const int* at, int first, int last) {
    for (int span = first; span < last; ++span) {
      if (i < counts[span]) return at[span] + i;
      i -= counts[span];
    }
    return -1;
  }

  static tf::Status Fuse(const Nodes& nodes, tf::Graph* graph) {
    Lists lists;
    for (const tf::Node* node : nodes) TF_RETURN_IF_ERROR(lists.Add(*node));
    lists.Place();
    tf::NodeDef def;
    def.set_name(lists.Name());
    def.set_op(nodes[0]->type_string() + "s");
    def.set_device(nodes[0]->requested_device());
    tf::AddNodeAttr("labels", lists.labels, &def);
    tf::AddNodeAttr("functions", lists.functions, &def);
    tf::AddNodeAttr("configs", lists.configs, &def);
    tf::AddNodeAttr("signatures", lists.signatures, &def);
    tf::AddNodeAttr("counts", lists.counts, &def);
    const bool named = lists.handles.named();
    tf::AddNodeAttr("containers", named ? lists.handles.containers() : std::vector<tf::string>(), &def);
    tf::AddNodeAttr("names", named ? lists.handles.names() : std::vector<tf::string>(), &def);
    tf::AddNodeAttr("Nr", static_cast<tf::int64>(lists.types[kResources].size()), &def);
    tf::AddNodeAttr("Tin", lists.types[kDeviceInputs], &def);
    tf::AddNodeAttr("Thost_in", lists.types[kHostInputs], &def);
    tf::AddNodeAttr("Tout", lists.types[kDeviceOutputs], &def);
    tf::AddNodeAttr("Thost_out", lists.types[kHostOutputs], &def);
    tf::Status status;
    tf::Node* const fused = graph->AddNode(def, &status);
    TF_RETURN_IF_ERROR(status);
    fused->set_assigned_device_name(nodes[0]->assigned_device_name());
    int at[kSpans];
    std::copy(lists.first, lists.first + kSpans, at);
    for (size_t n = 0; n < nodes.size(); ++n) {
      tf::Node* const node = nodes[n];
      const tf::int64* const counts = &lists.counts[n * kSpans];
      const std::vector<const tf::Edge*> in(node->in_edges().begin(), node->in_edges().end());
      const std::vector<const tf::Edge*> out(node->out_edges().begin(), node->out_edges().end());
      for (const tf::Edge* edge : in) {
        if (edge->IsControlEdge()) {
          graph->AddControlEdge(edge->src(), fused);
        } else if (!named || edge->dst_input() >= counts[kResources]) {
          graph->AddEdge(edge->src(), edge->src_output(), fused,
                         PlaceOf(edge->dst_input(), counts, at, kResources, kDeviceOutputs));
        }
      }
      for (const tf::Edge* edge : out) {
        tf::Node* const to = edge->dst();
        const int from = edge->src_output(), input = edge->dst_input();
        const bool control = edge->IsControlEdge();
        graph->RemoveEdge(edge);  // an input has one edge
        if (control) {
          graph->AddControlEdge(fused, to);
        } else {
          graph->AddEdge(fused, PlaceOf(from, counts, at, kDeviceOutputs, kSpans), to, input);
        }
      }
      for (int span = 0; span < kSpans; ++span) at[span] += counts[span];
      graph->RemoveNode(node);
    }
    if (named) lists.handles.RemoveUnread(graph);
    if (fused->in_edges().empty()) graph->AddControlEdge(graph->source_node(), fused);
    return tf::Status();
  }
};

// After the pass of bridge_signature.cc.
REGISTER_OPTIMIZATION(tf::OptimizationPassRegistry::POST_REWRITE_FOR_EXEC, 1, FusingPass);

}  // namespace
}  // namespace sok1x
