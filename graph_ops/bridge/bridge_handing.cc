// See bridge_handing.h.
#include "bridge_handing.h"

#include <map>
#include <set>
#include <vector>

#include "tensorflow/core/framework/node_def_util.h"
#include "tensorflow/core/lib/strings/strcat.h"

#include "bridge_types.h"

namespace sok1x {

namespace {

// With fewer to give to, TensorFlow is done sooner without.
constexpr size_t kMany = 8;

}  // namespace

tf::Status HandOn(tf::Node* fused, tf::Graph* graph) {
  tf::DataTypeVector on_device, types;  // outputs in host memory come after these
  TF_RETURN_IF_ERROR(tf::GetNodeAttr(fused->attrs(), "Tout", &on_device));
  std::map<int, std::vector<const tf::Edge*>> edges;  // by output
  std::set<const tf::Node*> readers;
  for (const tf::Edge* edge : fused->out_edges()) {
    const tf::Node* const reader = edge->dst();
    if (edge->IsControlEdge() || edge->src_output() >= static_cast<int>(on_device.size()) ||
        reader->assigned_device_name() != fused->assigned_device_name() || IsOursOrFused(reader->type_string())) {
      continue;
    }
    edges[edge->src_output()].push_back(edge);
    readers.insert(reader);
  }
  if (readers.size() < kMany) return tf::Status();
  for (const auto& each : edges) types.push_back(on_device[each.first]);
  tf::NodeDef def;
  def.set_name(tf::strings::StrCat(fused->name(), "/handed_on"));
  def.set_op("IdentityN");
  def.set_device(fused->requested_device());
  tf::AddNodeAttr("T", types, &def);
  tf::Status status;
  tf::Node* const hands = graph->AddNode(def, &status);
  TF_RETURN_IF_ERROR(status);
  hands->set_assigned_device_name(fused->assigned_device_name());
  int number = 0;
  for (const auto& each : edges) {
    graph->AddEdge(fused, each.first, hands, number);
    for (const tf::Edge* edge : each.second) {
      tf::Node* const reader = edge->dst();
      const int input = edge->dst_input();
      graph->RemoveEdge(edge);  // an input has one edge
      graph->AddEdge(hands, number, reader, input);
    }
    ++number;
  }
  return tf::Status();
}

}  // namespace sok1x
