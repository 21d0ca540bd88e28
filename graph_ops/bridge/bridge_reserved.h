// Host memory of variables that grow: addresses for many more rows than there are, of which a part is memory. So a
// variable gets more rows where it is: nothing is copied, there is no moment with its old and its new rows, and rows
// nobody has used cost no memory, for the system gives zero pages when they are first written.
//
// To TensorFlow it is a tensor's buffer as any other. Where TensorFlow puts another into the variable (an assignment of
// the whole), the next growth copies that into new addresses.
#ifndef SOK1X_BRIDGE_RESERVED_H
#define SOK1X_BRIDGE_RESERVED_H

#include <cstdint>

#include "bridge_request.h"

namespace sok1x {

// Smaller variables are TensorFlow's allocator's: a range of addresses is at least a large page.
constexpr int64_t kLeastReserved = 1 << 20;

// A tensor in a range of its own. *clean: its bytes from there on are zero. Returns false where there is no memory.
bool Reserve(tf::DataType dtype, const tf::TensorShape& shape, tf::Tensor* tensor, int64_t* clean);

// The same memory as `old`, which nobody else has and which is no more to be used, for more or fewer elements, if it is
// in such a range and there is room. What `old` has stays; *clean as above.
bool Extend(const tf::Tensor& old, const tf::TensorShape& shape, tf::Tensor* tensor, int64_t* clean);

}  // namespace sok1x

#endif  // SOK1X_BRIDGE_RESERVED_H
