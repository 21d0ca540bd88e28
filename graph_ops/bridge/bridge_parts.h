// The ops of bridge_parts.cc. kHostParts gives its outputs in host memory, also on a GPU.
#ifndef SOK1X_BRIDGE_PARTS_H
#define SOK1X_BRIDGE_PARTS_H

namespace sok1x {

constexpr char kPack[] = "Sok1xPack";
constexpr char kParts[] = "Sok1xParts";
constexpr char kHostParts[] = "Sok1xHostParts";

}  // namespace sok1x

#endif  // SOK1X_BRIDGE_PARTS_H
