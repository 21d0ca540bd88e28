// How a node is called that has a kernel of its own for one kind of session.run: see bridge_signature.cc.
#ifndef SOK1X_BRIDGE_SIGNATURE_H
#define SOK1X_BRIDGE_SIGNATURE_H

namespace sok1x {

constexpr char kSignatureInName[] = "/signature_";

}  // namespace sok1x

#endif  // SOK1X_BRIDGE_SIGNATURE_H
