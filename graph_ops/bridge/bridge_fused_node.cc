// See bridge_fused_node.h.
#include "bridge_fused_node.h"

#include "tensorflow/core/framework/node_def_util.h"
#include "tensorflow/core/lib/hash/hash.h"
#include "tensorflow/core/lib/strings/strcat.h"

namespace sok1x {

namespace {

constexpr tf::int64 kUnread = -1;

// Which of a node's outputs somebody reads, but for one node.
std::vector<bool> Read(const tf::Node& node, const tf::Node* but) {
  std::vector<bool> read(node.num_outputs(), false);
  for (const tf::Edge* edge : node.out_edges()) {
    if (!edge->IsControlEdge() && edge->dst() != but) read[edge->src_output()] = true;
  }
  return read;
}

}  // namespace

tf::Status FusedNode::Replace(const Nodes& nodes, const Nodes& followers, const std::set<tf::Node*>& keep_sums,
                              tf::Graph* graph, tf::Node** made) {
  Nodes all(nodes);
  all.insert(all.end(), followers.begin(), followers.end());
  for (size_t n = 0; n < all.size(); ++n) {
    const bool follows = n >= nodes.size();
    const tf::Node* const follower = follows || followers.empty() ? nullptr : followers[n];
    TF_RETURN_IF_ERROR(Add(*all[n], follower, follows ? n - nodes.size() : -1, keep_sums.count(all[n]) > 0));
  }
  Place();
  tf::Node* fused = nullptr;
  TF_RETURN_IF_ERROR(Make(*all.back(), graph, &fused));
  int inputs[kSpans] = {};
  if (!handles_.named()) inputs[kDeviceInputs] = types_[kResources].size();
  inputs[kHostInputs] = inputs[kDeviceInputs] + types_[kDeviceInputs].size();
  size_t outputs = 0;
  for (size_t n = 0; n < all.size(); ++n) {
    if (follows_[n] >= 0) --inputs[kDeviceInputs];  // where the first would be
    Move(all[n], n, inputs, outputs, graph, fused);
    for (int span = 0; span < kDeviceOutputs; ++span) inputs[span] += counts_[n * kSpans + span];
    outputs += all[n]->num_outputs();
    graph->RemoveNode(all[n]);
  }
  if (handles_.named()) handles_.RemoveUnread(graph);
  if (fused->in_edges().empty()) graph->AddControlEdge(graph->source_node(), fused);
  *made = fused;
  return tf::Status();
}

bool FusedNode::Gains(const tf::Node& node) {
  tf::int64 resources = 0;
  if (!tf::GetNodeAttr(node.attrs(), "Nr", &resources).ok() || resources == 0) return false;
  Handles handles;
  handles.Add(node, resources);
  return handles.named();
}

tf::Status FusedNode::Add(const tf::Node& node, const tf::Node* follower, tf::int64 follows, bool keeps_sums) {
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
  handles_.Add(node, resources);
  labels_.push_back(node.name());
  functions_.push_back(function);
  configs_.push_back(config);
  signatures_.push_back(signature);
  keep_sums_.push_back(keeps_sums);
  follows_.push_back(follows);
  const std::vector<bool> read = Read(node, follower);
  for (int span = 0, output = 0; span < kSpans; ++span) {
    counts_.push_back(of[span].size());
    if (span == kDeviceInputs && follows >= 0) of[span].erase(of[span].begin());
    for (tf::DataType type : of[span]) {
      if (span >= kDeviceOutputs) {
        output_types_.push_back(type);
        places_.push_back(read[output] ? types_[span].size() : kUnread);
        if (!read[output++]) continue;
      }
      types_[span].push_back(type);
    }
  }
  return tf::Status();
}

void FusedNode::Place() {
  if (handles_.named()) types_[kResources].clear();
  // Outputs in host memory come after all others.
  tf::int64* place = places_.data();
  for (size_t n = 0; n < labels_.size(); ++n) {
    place += counts_[n * kSpans + kDeviceOutputs];
    for (tf::int64 i = 0; i < counts_[n * kSpans + kHostOutputs]; ++i, ++place) {
      if (*place != kUnread) *place += types_[kDeviceOutputs].size();
    }
  }
}

tf::string FusedNode::Name() const {
  tf::uint64 hash = tf::Hash64Combine(labels_.size(), handles_.named() ? 1 : 0);
  for (size_t i = 0; i < labels_.size(); ++i) {
    hash = tf::Hash64Combine(hash, tf::Hash64(labels_[i]));
    hash = tf::Hash64Combine(hash, tf::Hash64(configs_[i]));
    hash = tf::Hash64Combine(hash, static_cast<tf::uint64>(signatures_[i]));
    hash = tf::Hash64Combine(hash, keep_sums_[i]);
    hash = tf::Hash64Combine(hash, static_cast<tf::uint64>(follows_[i]));
  }
  for (tf::int64 place : places_) hash = tf::Hash64Combine(hash, static_cast<tf::uint64>(place));
  const tf::string begin = alone() ? tf::strings::StrCat(labels_[0], "/alone_")
                           : follows_.back() == 0 ? tf::strings::StrCat(labels_[1], "/with_gradient_")
                                                  : tf::strings::StrCat("sok1x_calls/", functions_.back(), "_");
  return tf::strings::StrCat(begin, tf::strings::Hex(hash));
}

tf::Status FusedNode::Make(const tf::Node& like, tf::Graph* graph, tf::Node** made) const {
  const std::vector<tf::string> none;
  tf::NodeDef def;
  def.set_name(Name());
  def.set_op(alone() ? like.type_string() : like.type_string() + "s");
  def.set_device(like.requested_device());
  tf::AddNodeAttr("labels", labels_, &def);
  tf::AddNodeAttr("functions", functions_, &def);
  tf::AddNodeAttr("configs", configs_, &def);
  tf::AddNodeAttr("signatures", signatures_, &def);
  tf::AddNodeAttr("keep_sums", keep_sums_, &def);
  tf::AddNodeAttr("follows", follows_, &def);
  tf::AddNodeAttr("counts", counts_, &def);
  tf::AddNodeAttr("containers", handles_.named() ? handles_.containers() : none, &def);
  tf::AddNodeAttr("names", handles_.named() ? handles_.names() : none, &def);
  tf::AddNodeAttr("output_types", output_types_, &def);
  tf::AddNodeAttr("places", places_, &def);
  tf::AddNodeAttr("Nr", static_cast<tf::int64>(types_[kResources].size()), &def);
  tf::AddNodeAttr("Tin", types_[kDeviceInputs], &def);
  tf::AddNodeAttr("Thost_in", types_[kHostInputs], &def);
  tf::AddNodeAttr("Tout", types_[kDeviceOutputs], &def);
  tf::AddNodeAttr("Thost_out", types_[kHostOutputs], &def);
  if (alone()) {
    tf::AddNodeAttr("function", functions_[0], &def);
    tf::AddNodeAttr("config", configs_[0], &def);
    tf::AddNodeAttr("output_shapes", std::vector<tf::PartialTensorShape>(), &def);
    tf::AddDefaultsToNodeDef(like.op_def(), &def);
  }
  tf::Status status;
  *made = graph->AddNode(def, &status);
  TF_RETURN_IF_ERROR(status);
  (*made)->set_assigned_device_name(like.assigned_device_name());
  return tf::Status();
}

void FusedNode::Move(tf::Node* node, size_t n, const int* inputs, size_t outputs, tf::Graph* graph,
                     tf::Node* fused) const {
  const tf::int64* const counts = &counts_[n * kSpans];
  const auto input_at = [=](int i) {
    int span = kResources;
    for (; i >= counts[span]; ++span) i -= counts[span];
    return inputs[span] + i;
  };
  const std::vector<const tf::Edge*> in(node->in_edges().begin(), node->in_edges().end());
  const std::vector<const tf::Edge*> out(node->out_edges().begin(), node->out_edges().end());
  for (const tf::Edge* edge : in) {
    if (edge->IsControlEdge()) {
      graph->AddControlEdge(edge->src(), fused);
    } else if (!handles_.named() || edge->dst_input() >= counts[kResources]) {
      graph->AddEdge(edge->src(), edge->src_output(), fused, input_at(edge->dst_input()));
    }
  }
  for (const tf::Edge* edge : out) {
    tf::Node* const to = edge->dst();
    const int from = edge->src_output(), input = edge->dst_input();
    const bool control = edge->IsControlEdge();
    graph->RemoveEdge(edge);  // an input has one edge
    if (control) {
      graph->AddControlEdge(fused, to);
    } else if (places_[outputs + from] != kUnread) {
      graph->AddEdge(fused, static_cast<int>(places_[outputs + from]), to, input);
    }
  }
}

}  // namespace sok1x
