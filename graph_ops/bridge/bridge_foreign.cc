// See bridge_foreign.h.
#include "bridge_foreign.h"

#include <string>

namespace sok1x {

namespace {

// How configs name this process; empty while nobody has said, and where there is one rank.
std::string* OwnMark() {
  static auto* mark = new std::string;
  return mark;
}

}  // namespace

tf::Status OfThisRank(tf::OpKernelConstruction* construction, const Text& config) {
  if (OwnMark()->empty()) return tf::Status();
  const std::string device = construction->device()->name(), text(config);
  if (device.find("/job:localhost/") != std::string::npos || text.find(*OwnMark()) != std::string::npos) {
    return tf::Status();
  }
  return tf::errors::FailedPrecondition(
      "op '", construction->def().name(), "': got another process's session, whose server runs it here, on ", device,
      "; expected that each rank runs its own ops. Open sessions without a server's target, for ranks need no "
      "tf.train.Server; or build each rank's model inside of tf.device() with the job and task of that rank's own "
      "server");
}

}  // namespace sok1x

// process: plan.PROCESS. To be called once, before anything runs, where this process is one of several ranks.
extern "C" void sok1x_own_process(const char* process) { *sok1x::OwnMark() = process; }
