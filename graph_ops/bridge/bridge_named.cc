// See bridge_named.h.
#include "bridge_named.h"

#include <cstring>
#include <map>
#include <mutex>
#include <unordered_map>
#include <utility>

#include "bridge_calls.h"

namespace sok1x {

#if TF_MAJOR_VERSION == 1

// Its variables cannot be referred to without being held, and it has no eager execution that we take part in.
bool NoteNamed(const std::string&, tf::Var*) { return false; }
tf::core::RefCountPtr<tf::Var> FindNamed(const std::string&) { return tf::core::RefCountPtr<tf::Var>(); }
std::string NameOf(const tf::Var*) { return ""; }
HostTier* NamedTier(const std::string&) { return nullptr; }

#else

namespace {

// What a table's tier is called behind its rows. Kept in step with host_tier.py.
constexpr char kHostRows[] = "/host_rows";

struct Noted {
  const tf::Var* variable;
  tf::core::WeakPtr<tf::Var> weak;
};

std::mutex mutex;
// Never destroyed: TensorFlow's threads may outlive static destruction.
auto& variables = *new std::map<std::string, Noted>;
auto& names = *new std::unordered_map<const tf::Var*, std::string>;
auto& tiers = *new std::map<std::string, tf::core::RefCountPtr<HostTier>>;

// A variable is gone. Another may have its name, or its address, by now.
void Forget(const std::string& name, const tf::Var* variable) {
  tf::core::RefCountPtr<HostTier> gone;  // freed when nothing is locked
  std::lock_guard<std::mutex> lock(mutex);
  const auto of_variable = names.find(variable);
  if (of_variable != names.end() && of_variable->second == name) names.erase(of_variable);
  const auto found = variables.find(name);
  if (found == variables.end() || found->second.variable != variable) return;
  variables.erase(found);
  // Its own alone: that of a table called NAME/... begins with NAME/, too.
  const auto tier = tiers.find(name + kHostRows);
  if (tier == tiers.end()) return;
  gone = std::move(tier->second);
  tiers.erase(tier);
}

}  // namespace

bool NoteNamed(const std::string& name, tf::Var* variable) {
  tf::core::WeakPtr<tf::Var> weak(variable, [name, variable] { Forget(name, variable); });
  std::lock_guard<std::mutex> lock(mutex);
  variables.erase(name);
  variables.emplace(name, Noted{variable, std::move(weak)});
  names[variable] = name;
  return true;
}

tf::core::RefCountPtr<tf::Var> FindNamed(const std::string& name) {
  std::lock_guard<std::mutex> lock(mutex);
  const auto found = variables.find(name);
  return found == variables.end() ? tf::core::RefCountPtr<tf::Var>() : found->second.weak.GetNewRef();
}

std::string NameOf(const tf::Var* variable) {
  std::lock_guard<std::mutex> lock(mutex);
  const auto found = names.find(variable);
  return found == names.end() ? std::string() : found->second;
}

HostTier* NamedTier(const std::string& name) {
  std::lock_guard<std::mutex> lock(mutex);
  tf::core::RefCountPtr<HostTier>& tier = tiers[name];
  if (tier == nullptr) tier.reset(new HostTier);
  return tier.get();
}

#endif

tf::core::RefCountPtr<tf::Var> FindVariable(const Request* request, const char* container, const char* name) {
  if (std::strcmp(container, kEagerContainer) == 0) return FindNamed(name);
  tf::ResourceMgr* const manager = request->context->resource_manager();
  tf::Var* lying = nullptr;
  const std::string in = *container != '\0' ? std::string(container) : manager->default_container();
  return tf::core::RefCountPtr<tf::Var>(manager->Lookup(in, name, &lying).ok() ? lying : nullptr);
}

}  // namespace sok1x

extern "C" {

// Notes the request's variable `index` under a name: 0, or a status code.
int sok1x_note_named(void* handle, int index, const char* name) {
  tensorflow::Var* const variable = static_cast<sok1x::Request*>(handle)->variables[index].get();
  if (variable == nullptr) return static_cast<int>(tensorflow::error::FAILED_PRECONDITION);
  return sok1x::NoteNamed(name, variable) ? 0 : static_cast<int>(tensorflow::error::UNIMPLEMENTED);
}

}  // extern "C"
