// See bridge_handles.h.
#include "bridge_handles.h"

#include "tensorflow/core/framework/node_def_util.h"

namespace sok1x {

namespace {

// Whether the node gives a variable's handle, and always the same one; then its container and name, too.
bool IsNamed(const tf::Node& node, tf::string* container, tf::string* name) {
  if (node.type_string() != "VarHandleOp") return false;
  for (const tf::Edge* edge : node.in_edges()) {
    if (!edge->src()->IsSource()) return false;  // it waits for something
  }
  return tf::GetNodeAttr(node.attrs(), "container", container).ok() &&
         tf::GetNodeAttr(node.attrs(), "shared_name", name).ok() && !name->empty() &&
         *name != tf::ResourceHandle::ANONYMOUS_NAME;
}

}  // namespace

void Handles::Add(const tf::Node& node, int64_t count) {
  for (int64_t i = 0; named_ && i < count; ++i) {
    const tf::Edge* edge = nullptr;
    tf::string container, name;
    named_ = node.input_edge(i, &edge).ok() && IsNamed(*edge->src(), &container, &name) &&
             edge->src()->assigned_device_name() == node.assigned_device_name();
    if (!named_) return;
    containers_.push_back(container);
    names_.push_back(name);
    nodes_.push_back(edge->src()->id());
  }
}

void Handles::RemoveUnread(tf::Graph* graph) const {
  for (int id : nodes_) {
    tf::Node* const node = graph->FindNodeId(id);  // null: it has gone already
    if (node == nullptr) continue;
    bool read = false;
    for (const tf::Edge* edge : node->out_edges()) read = read || !edge->dst()->IsSink();
    if (!read) graph->RemoveNode(node);
  }
}

}  // namespace sok1x
