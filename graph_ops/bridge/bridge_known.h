// Variables that ops know by name, and need not look for again in each run: TensorFlow takes a quarter of a microsecond
// to find one, and a step of 100 tables asks for more than a thousand.
#ifndef SOK1X_BRIDGE_KNOWN_H
#define SOK1X_BRIDGE_KNOWN_H

#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "bridge_request.h"

namespace sok1x {

// What is known holds one reference to a variable, however many ops use it. So one that TensorFlow has let go of
// (destroyed, its container cleared) is seen as soon as no step uses it, and looked for anew. It stays in memory until
// then, or until the last of these ops is gone, at the latest with its session.
class KnownVariables {
 private:
  struct Known {
    tf::core::RefCountPtr<tf::Var> variable;
  };

 public:
  // What one op knows of its variables.
  struct List {
    tf::ResourceMgr* manager = nullptr;
    std::vector<std::shared_ptr<Known>> variables;
  };

  static KnownVariables* Get();

  // The variables of these names: variables, as many; null where there is none. list: the same one for an op each time.
  // Any thread.
  void Find(tf::ResourceMgr* manager, const std::vector<Text>& containers, const std::vector<Text>& names, List* list,
            tf::core::RefCountPtr<tf::Var>* variables);

 private:
  typedef std::pair<tf::ResourceMgr*, std::pair<Text, Text>> Key;  // container and name

  void Begin(tf::ResourceMgr* manager, const std::vector<Text>& containers, const std::vector<Text>& names, List* list);

  static constexpr size_t kLeastSwept = 1000;

  std::mutex mutex_;
  size_t sweep_at_ = kLeastSwept;  // how many entries there are when those without use are looked for
  std::map<Key, std::weak_ptr<Known>> all_;
};

}  // namespace sok1x

#endif  // SOK1X_BRIDGE_KNOWN_H
