// The ids of many tables come from where features are, in host memory, to the lookups' GPU: two or three tensors of
// each table, each by a pair of TensorFlow's nodes and a copy of its own. So in the graph that TensorFlow makes for a
// session.run, what a lookup, as a rule a fused one, takes from host memory is laid into one buffer, travels as one,
// and is taken apart on the lookup's device (bridge_parts.cc).
//
// A node waits for all of its inputs as it is: nothing new waits for anything.
#include <map>
#include <string>
#include <tuple>
#include <vector>

#include "tensorflow/core/common_runtime/optimization_registry.h"
#include "tensorflow/core/framework/memory_types.h"
#include "tensorflow/core/framework/node_def_util.h"
#include "tensorflow/core/graph/graph.h"
#include "tensorflow/core/util/device_name_utils.h"

#include "bridge_parts.h"
#include "bridge_passes.h"
#include "bridge_types.h"

namespace sok1x {
namespace {

namespace tf = ::tensorflow;

typedef std::pair<tf::Node*, int> Output;
typedef std::vector<int> Inputs;

std::string DeviceType(const std::string& device) {
  tf::DeviceNameUtils::ParsedName parsed;
  return tf::DeviceNameUtils::ParseFullName(device, &parsed) && parsed.has_type ? parsed.type : std::string();
}

// Whether an output of a node is in host memory.
bool OnHost(const tf::Node& node, int output) {
  const std::string type = DeviceType(node.assigned_device_name());
  if (type == tf::DEVICE_CPU) return true;
  tf::MemoryTypeVector inputs, outputs;
  return !type.empty() &&
         tf::MemoryTypesForNode(tf::OpRegistry::Global(), tf::DeviceType(type), node.def(), &inputs, &outputs).ok() &&
         output < static_cast<int>(outputs.size()) && outputs[output] == tf::HOST_MEMORY;
}

// Another process may not know our ops.
bool InThisProcess(const std::string& device, const std::string& other) {
  tf::DeviceNameUtils::ParsedName parsed[2];
  return tf::DeviceNameUtils::ParseFullName(device, &parsed[0]) &&
         tf::DeviceNameUtils::ParseFullName(other, &parsed[1]) &&
         tf::DeviceNameUtils::IsSameAddressSpace(parsed[0], parsed[1]);
}

class PackingPass : public tf::GraphOptimizationPass {
 public:
  tf::Status Run(const tf::GraphOptimizationPassOptions& options) override {
    tf::Graph* const graph = GraphToChange(options);
    if (graph == nullptr) return tf::Status();
    std::vector<tf::Node*> lookups;
    for (tf::Node* node : graph->op_nodes()) {
      if (IsLookup(node->type_string())) lookups.push_back(node);
    }
    for (tf::Node* node : lookups) {
      tf::NameRangeMap ranges;
      TF_RETURN_IF_ERROR(tf::NameRangesForNode(node->attrs(), node->op_def(), &ranges, nullptr));
      TF_RETURN_IF_ERROR(Pack(node, ranges["inputs"], false, graph));
      TF_RETURN_IF_ERROR(Pack(node, ranges["host_inputs"], true, graph));
    }
    return tf::Status();
  }

 private:
  // What `node` takes as inputs of this range; host: which are in host memory wherever the node is.
  static tf::Status Pack(tf::Node* node, const std::pair<int, int>& range, bool host, tf::Graph* graph) {
    // By the device that it comes from: the outputs in order, and which inputs each one is.
    std::map<std::string, std::pair<std::vector<Output>, std::map<Output, Inputs>>> found;
    for (int input = range.first; input < range.second; ++input) {
      const tf::Edge* edge = nullptr;
      TF_RETURN_IF_ERROR(node->input_edge(input, &edge));
      tf::Node* const from = edge->src();
      if (from->output_type(edge->src_output()) != tf::DT_INT64 || !OnHost(*from, edge->src_output()) ||
          !InThisProcess(from->assigned_device_name(), node->assigned_device_name())) {
        continue;
      }
      const bool elsewhere = from->assigned_device_name() != node->assigned_device_name();
      const bool gpu = DeviceType(node->assigned_device_name()) == tf::DEVICE_GPU;
      if (!elsewhere && (host || !gpu)) continue;
      auto& here = found[from->assigned_device_name()];
      Inputs& inputs = here.second[Output(from, edge->src_output())];
      if (inputs.empty()) here.first.emplace_back(from, edge->src_output());
      inputs.push_back(input);
    }
    for (const auto& each : found) {
      if (each.second.first.size() < 2) continue;
      TF_RETURN_IF_ERROR(Join(node, each.first, each.second.first, each.second.second, host, graph));
    }
    return tf::Status();
  }

  static tf::Status Join(tf::Node* node, const std::string& device, const std::vector<Output>& outputs,
                         const std::map<Output, Inputs>& inputs, bool host, tf::Graph* graph) {
    tf::Node *pack = nullptr, *parts = nullptr;
    TF_RETURN_IF_ERROR(Add(kPack, outputs.size(), device, graph, &pack));
    TF_RETURN_IF_ERROR(Add(host ? kHostParts : kParts, outputs.size(), node->assigned_device_name(), graph, &parts));
    graph->AddEdge(pack, 0, parts, 0);
    graph->AddEdge(pack, 1, parts, 1);
    for (size_t i = 0; i < outputs.size(); ++i) {
      graph->AddEdge(outputs[i].first, outputs[i].second, pack, i);
      for (int input : inputs.at(outputs[i])) {
        const tf::Edge* edge = nullptr;
        TF_RETURN_IF_ERROR(node->input_edge(input, &edge));
        graph->RemoveEdge(edge);
        graph->AddEdge(parts, i, node, input);
      }
    }
    return tf::Status();
  }

  static tf::Status Add(const char* type, size_t count, const std::string& device, tf::Graph* graph, tf::Node** made) {
    tf::NodeDef def;
    def.set_name(graph->NewName(std::string("sok1x_calls/") + type));
    def.set_op(type);
    tf::AddNodeAttr("N", static_cast<tf::int64>(count), &def);
    tf::Status status;
    *made = graph->AddNode(def, &status);
    TF_RETURN_IF_ERROR(status);
    (*made)->set_assigned_device_name(device);
    return tf::Status();
  }
};

// After the pass of bridge_fusing.cc.
REGISTER_OPTIMIZATION(tf::OptimizationPassRegistry::POST_REWRITE_FOR_EXEC, 2, PackingPass);

}  // namespace
}  // namespace sok1x
