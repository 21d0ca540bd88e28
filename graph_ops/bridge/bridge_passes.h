// What the passes that change the graph of a session.run have in common.
#ifndef SOK1X_BRIDGE_PASSES_H
#define SOK1X_BRIDGE_PASSES_H

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <string>

#include "tensorflow/core/common_runtime/optimization_registry.h"

namespace sok1x {

namespace tf = ::tensorflow;

// Whether the environment says that graphs stay as they are: SOK1X_FUSE is 0, perhaps with space around it, as
// launch/environment.py takes it.
inline bool GraphsStay() {
  const char* chosen = std::getenv("SOK1X_FUSE");
  if (chosen == nullptr) return false;
  std::string text(chosen);
  text.erase(std::remove_if(text.begin(), text.end(), [](unsigned char c) { return std::isspace(c); }), text.end());
  return text == "0";
}

// The graph, if it is a session's and may be changed; else null.
inline tf::Graph* GraphToChange(const tf::GraphOptimizationPassOptions& options) {
  if (options.graph == nullptr || options.session_options == nullptr || GraphsStay()) return nullptr;
  return options.graph->get();
}

}  // namespace sok1x

#endif  // SOK1X_BRIDGE_PASSES_H
