// What a session.run is made of, as its ops see it.
//
// TensorFlow makes a graph of its own for each set of things that a session.run asks for, and keeps it; but an op of
// ours has one kernel in all of them. A training step and an evaluation that share a lookup would be taken for each
// other by another rank. So each such graph is given a hash of those of our ops in it that communicate, which is equal
// on all ranks, as attribute `signature` of these ops; where an op is in graphs with different hashes, all but the
// first get a node name, and so a kernel, of their own.
//
// Steps of optimizers do not communicate. But gradients that are only looked at must not be taken for those that a step
// follows: one rank would then step by what another throws away. So two of the hash's bits say what becomes of
// gradients (launch/messages.py, Instance): 0 where there are none of ours, 1 where nothing steps, 2 where something
// does; of a gradient itself, whether something moves its own table.
//
// And where nobody reads what an op would keep for a gradient that few ask for (its config's field `kept` says which
// output that is), the config says 0 from now on; such an op, too, is then another than where somebody does.
//
// And in a session.run without any gradient of ours, an evaluation, lookups that may choose their exchange do not: it
// is all2all, as exchanges/choice.py has it, whatever `training` says, for SOK 2.x's lookups have no such argument. On
// another rank the run may have gradients: so what their config says then, 'settled', is told the others.
#include <algorithm>
#include <cstdlib>
#include <mutex>
#include <set>
#include <string>
#include <unordered_map>

#include "tensorflow/core/common_runtime/optimization_registry.h"
#include "tensorflow/core/graph/graph.h"
#include "tensorflow/core/lib/hash/hash.h"

#include "bridge_signature.h"
#include "bridge_types.h"

namespace sok1x {
namespace {

namespace tf = ::tensorflow;

constexpr int kGradientsBit = 61;  // as in launch/messages.py

uint64_t Mix(uint64_t x) {
  x = (x ^ (x >> 33)) * 0xff51afd7ed558ccdULL;
  x = (x ^ (x >> 33)) * 0xc4ceb9fe1a85ec53ULL;
  return x ^ (x >> 33);
}

class SignaturePass : public tf::GraphOptimizationPass {
 public:
  tf::Status Run(const tf::GraphOptimizationPassOptions& options) override {
    if (options.graph == nullptr || *options.graph == nullptr) return tf::Status();
    uint64_t run = 0;
    bool evaluates = true;
    std::vector<tf::Node*> ours;
    for (tf::Node* node : (*options.graph)->op_nodes()) {
      int64_t digest = 0;
      if (!IsOurs(node->type_string()) || !Get(node, "digest", &digest) || digest == 0) continue;
      run += Mix(static_cast<uint64_t>(digest));
      evaluates = evaluates && node->type_string() != kGradientType;
      ours.push_back(node);
    }
    run &= ~(uint64_t{3} << kGradientsBit);
    const Handles moved = evaluates ? Handles() : Moved(**options.graph);
    for (tf::Node* node : ours) {
      const Handles its_own = evaluates || node->type_string() != kGradientType ? Handles() : TablesOf(*node);
      const bool steps = its_own.empty() ? !moved.empty() : Meet(its_own, moved);
      const uint64_t signature = evaluates ? run : run | uint64_t{steps ? 2u : 1u} << kGradientsBit;
      node->ClearAttr("signature");
      node->AddAttr("signature", static_cast<tf::int64>(signature));
      const uint64_t op = tf::Hash64(node->attrs().Find("config")->s());
      const uint64_t kind = DropKept(node) ? Mix(signature) : signature;
      if (evaluates) Settle(node);
      if (!IsFirst(op, kind)) node->set_name(node->name() + kSignatureInName + std::to_string(kind));
    }
    return tf::Status();
  }

 private:
  typedef std::set<const tf::Node*> Handles;  // what gives handles of variables

  static bool Get(const tf::Node* node, const char* name, int64_t* value) {
    const tf::AttrValue* attr = node->attrs().Find(name);
    if (attr != nullptr) *value = attr->i();
    return attr != nullptr;
  }

  // Whether ops of this type of TensorFlow's write to a variable, as its optimizers' do: by sparse gradients, by dense
  // ones, or by what they have computed (tf.train.AdamOptimizer by AssignSubVariableOp).
  static bool Moves(const std::string& type) {
    for (const char* begin : {"ResourceSparseApply", "ResourceApply", "ResourceScatter", "Assign"}) {
      if (type.find(begin) == 0) return true;
    }
    return false;
  }

  // What gives what comes along an edge, as a handle, also into a branch or a loop.
  static const tf::Node& HandleOf(const tf::Edge& edge) {
    const tf::Edge* along = &edge;
    while ((along->src()->IsSwitch() || along->src()->IsEnter() || along->src()->IsIdentity()) &&
           along->src()->input_edge(0, &along).ok()) {
    }
    return *along->src();
  }

  static void AddHandles(const tf::Node& node, Handles* handles) {
    for (const tf::Edge* edge : node.in_edges()) {
      if (edge->IsControlEdge() || node.input_type(edge->dst_input()) != tf::DT_RESOURCE) continue;
      handles->insert(&HandleOf(*edge));
    }
  }

  static bool Meet(const Handles& some, const Handles& others) {
    return std::any_of(some.begin(), some.end(), [&](const tf::Node* node) { return others.count(node) > 0; });
  }

  // The variables of tables that a graph moves: by optimizers of ours, or by TensorFlow's of variables that ours know.
  static Handles Moved(const tf::Graph& graph) {
    Handles tables, moved, by_others;
    for (const tf::Node* node : graph.op_nodes()) {
      const std::string& type = node->type_string();
      if (type == kUpdateType) {
        AddHandles(*node, &moved);
      } else if (IsOurs(type)) {
        AddHandles(*node, &tables);
      } else if (Moves(type)) {
        AddHandles(*node, &by_others);
      }
    }
    for (const tf::Node* node : by_others) {
      if (tables.count(node) > 0) moved.insert(node);
    }
    return moved;
  }

  // The variables of the table whose rows a gradient is of: those of the lookup that has left something for it. What is
  // handed back to it, its first input, may be another lookup's rows. None where a lookup does so by other ways.
  static Handles TablesOf(const tf::Node& gradient) {
    Handles handles;
    for (const tf::Edge* edge : gradient.in_edges()) {
      if (edge->IsControlEdge() || edge->dst_input() == 0) continue;
      const tf::Node& from = HandleOf(*edge);
      if (IsLookup(from.type_string())) AddHandles(from, &handles);
    }
    return handles;
  }

  // Whether an output is kept that nobody reads: then it no more is.
  static bool DropKept(tf::Node* node) {
    static const std::string kField = "\"kept\": ";  // as configs.py writes it
    std::string config = node->attrs().Find("config")->s();
    const size_t at = config.find(kField);
    if (at == std::string::npos) return false;
    const size_t begin = at + kField.size(), end = config.find_first_not_of("0123456789", begin);
    const int kept = std::atoi(config.substr(begin, end - begin).c_str());
    if (kept == 0) return false;
    for (const tf::Edge* edge : node->out_edges()) {
      if (edge->src_output() == kept) return false;
    }
    node->ClearAttr("config");
    node->AddAttr("config", config.replace(begin, end - begin, "0"));
    return true;
  }

  // Has a lookup that may choose its exchange go by all2all, and tell so.
  static void Settle(tf::Node* node) {
    static const std::string kChoose = "\"exchange\": \"auto\"", kSettled = "\"exchange\": \"settled\"";  // as there
    std::string config = node->attrs().Find("config")->s();
    const size_t at = config.find(kChoose);
    if (at == std::string::npos) return;
    node->ClearAttr("config");
    node->AddAttr("config", config.replace(at, kChoose.size(), kSettled));
  }

  // Whether an op, a hash of what it is made of, is met for the first time, or in such a graph as then.
  bool IsFirst(uint64_t op, uint64_t signature) {
    std::lock_guard<std::mutex> lock(mutex_);
    if (first_.size() >= kMostOps) first_.clear();
    return first_.emplace(op, signature).first->second == signature;
  }

  static constexpr size_t kMostOps = 1000000;
  std::mutex mutex_;
  std::unordered_map<uint64_t, uint64_t> first_;
};

REGISTER_OPTIMIZATION(tf::OptimizationPassRegistry::POST_REWRITE_FOR_EXEC, 0, SignaturePass);

}  // namespace
}  // namespace sok1x
