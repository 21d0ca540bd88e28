// See bridge_known.h.
#include "bridge_known.h"

namespace sok1x {

KnownVariables* KnownVariables::Get() {
  static KnownVariables* known = new KnownVariables;  // never destroyed: TensorFlow's threads may outlive it
  return known;
}

void KnownVariables::Begin(tf::ResourceMgr* manager, const std::vector<Text>& containers,
                           const std::vector<Text>& names, List* list) {
  list->manager = manager;
  list->variables.clear();
  if (all_.size() >= sweep_at_) {
    for (auto each = all_.begin(); each != all_.end();) {  // of ops that are gone
      each = each->second.expired() ? all_.erase(each) : std::next(each);
    }
    sweep_at_ = 2 * all_.size() + kLeastSwept;
  }
  for (size_t i = 0; i < names.size(); ++i) {
    std::weak_ptr<Known>& noted = all_[Key(manager, std::make_pair(containers[i], names[i]))];
    std::shared_ptr<Known> known = noted.lock();
    if (known == nullptr) noted = known = std::make_shared<Known>();
    list->variables.push_back(std::move(known));
  }
}

void KnownVariables::Find(tf::ResourceMgr* manager, const std::vector<Text>& containers,
                          const std::vector<Text>& names, List* list,
                          tf::core::RefCountPtr<tf::Var>* variables) {
  std::vector<tf::core::RefCountPtr<tf::Var>> gone;  // freed when nothing is locked
  std::lock_guard<std::mutex> lock(mutex_);
  if (list->manager != manager) Begin(manager, containers, names, list);
  for (size_t i = 0; i < names.size(); ++i) {
    tf::core::RefCountPtr<tf::Var>& known = list->variables[i]->variable;
    if (known == nullptr || known->RefCountIsOne()) {
      gone.push_back(std::move(known));
      known.reset();
      tf::Var* found = nullptr;
      const Text& container = containers[i].empty() ? manager->default_container() : containers[i];
      if (!manager->Lookup<tf::Var>(container, names[i], &found).ok()) continue;
      known.reset(found);
    }
    known->Ref();
    variables[i].reset(known.get());
  }
}

}  // namespace sok1x
