// Variables of eager execution, by names that we give them.
//
// A session's variables lie in TensorFlow's resource manager by their names, where bridge_grow.cc finds those that an
// op does not have among its inputs. An eager variable lies nowhere: its handles alone hold it, and when the last one
// goes so does it. So each one that may have to be found is noted here, without being held; with a table's rows goes
// what the table has in host memory.
#ifndef SOK1X_BRIDGE_NAMED_H
#define SOK1X_BRIDGE_NAMED_H

#include <string>

#include "bridge_request.h"
#include "bridge_tier.h"

namespace sok1x {

// The container that such variables are said to lie in. Kept in step with growing.py's EAGER.
constexpr char kEagerContainer[] = "sok1x:eager";

// Has a variable be found under a name for as long as it lives. Returns false in a TensorFlow without eager execution.
bool NoteNamed(const std::string& name, tf::Var* variable);

// The variable of that name, null where there is none (any more).
tf::core::RefCountPtr<tf::Var> FindNamed(const std::string& name);

// The variable that a container has under a name, null where there is none: of the request's session, or an eager one.
// container: '' for TensorFlow's default.
tf::core::RefCountPtr<tf::Var> FindVariable(const Request* request, const char* container, const char* name);

// The name of a variable, "" of one that has none.
std::string NameOf(const tf::Var* variable);

// The tier of that name, made where there is none. It is named after a table's rows, "ROWS/...", and goes with them.
HostTier* NamedTier(const std::string& name);

}  // namespace sok1x

#endif  // SOK1X_BRIDGE_NAMED_H
