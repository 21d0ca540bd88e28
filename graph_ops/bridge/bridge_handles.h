// Which variables ops use, as the nodes of their handles say it: container and name. Who knows these looks the
// variables up without the handles, and their nodes need not run: of a table that has an index they are five, which
// took longer than its share of a lookup (half a microsecond each on a host; on a GPU's machine more).
#ifndef SOK1X_BRIDGE_HANDLES_H
#define SOK1X_BRIDGE_HANDLES_H

#include <string>
#include <vector>

#include "tensorflow/core/graph/graph.h"

#include "bridge_request.h"

namespace sok1x {

class Handles {
 public:
  // Adds the first `count` inputs of a node, which are resources.
  void Add(const tf::Node& node, int64_t count);

  // Whether all that have been added come straight from nodes of handles on the same device, which say the names.
  // What is fed, or has come through a cond, does not.
  bool named() const { return named_; }
  const std::vector<tf::string>& containers() const { return containers_; }
  const std::vector<tf::string>& names() const { return names_; }

  // Takes the nodes of handles that nobody reads any more out of the graph.
  void RemoveUnread(tf::Graph* graph) const;

 private:
  bool named_ = true;
  std::vector<tf::string> containers_, names_;
  std::vector<int> nodes_;  // their ids
};

}  // namespace sok1x

#endif  // SOK1X_BRIDGE_HANDLES_H
