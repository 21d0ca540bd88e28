// The types of our ops. All have the same attributes and one kernel, which runs what the attribute `function` names;
// the types tell profilers what it is. A fused node (bridge_fusing.cc) has its members' type and an "s".
#ifndef SOK1X_BRIDGE_TYPES_H
#define SOK1X_BRIDGE_TYPES_H

#include <string>

// For each type: f(its name). As op_types.py has them.
#define SOK1X_FOR_EACH_TYPE(f) \
  f("Sok1xCall");              \
  f("Sok1xLookup");            \
  f("Sok1xGradient");          \
  f("Sok1xDistinct");          \
  f("Sok1xUpdate");            \
  f("Sok1xReduce");            \
  f("Sok1xBroadcast")

namespace sok1x {

constexpr char kGradientType[] = "Sok1xGradient";
constexpr char kLookupType[] = "Sok1xLookup";
constexpr char kUpdateType[] = "Sok1xUpdate";

// Whether an op of this type is one of ours, and no fused node.
inline bool IsOurs(const std::string& type) {
#define SOK1X_IS_IT(name) \
  if (type == name) return true
  SOK1X_FOR_EACH_TYPE(SOK1X_IS_IT);
#undef SOK1X_IS_IT
  return false;
}

// The type of a fused node's members, or the type itself.
inline std::string OfMembers(const std::string& type) {
  return !type.empty() && type.back() == 's' ? type.substr(0, type.size() - 1) : type;
}

// Whether an op of this type is one of ours, or several that are fused.
inline bool IsOursOrFused(const std::string& type) { return IsOurs(OfMembers(type)); }

// Whether an op of this type is a lookup, or several that are fused.
inline bool IsLookup(const std::string& type) { return OfMembers(type) == kLookupType; }

}  // namespace sok1x

#endif  // SOK1X_BRIDGE_TYPES_H
