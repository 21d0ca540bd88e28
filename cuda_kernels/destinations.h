// Splits the destination of a sum (or scatter) over threads: each part is a range of columns and a share of rows.
//
// Every thread walks all sources in order and serves its own part, so each destination float is written by one
// thread in index order: the same bits for any number of threads. Columns are split first, because then no
// source is looked at in vain; a part keeps whole cache lines.
#ifndef SOK1X_DESTINATIONS_H
#define SOK1X_DESTINATIONS_H
#include "common.cuh"

namespace sok1x {

struct Destinations {
  i64 column, width;  // the columns of this part
  i64 share, shares;  // its rows: the share-th of `shares` equal shares, as the kernel divides them
};

template <class F>
void for_destinations(i64 dim, i64 bytes, const F& body) {
  const i64 line = 16;  // floats in a cache line
  const i64 wanted = std::min<i64>(ThreadPool::get().threads(), bytes / kLeastBytes + 1);
  const i64 column_parts = std::max<i64>(1, std::min(wanted, dim / line));
  const i64 shares = (wanted + column_parts - 1) / column_parts;
  const i64 lines = (dim + line - 1) / line;
  parallel_chunks(column_parts * shares, 1, [=](i64 begin, i64 end) {
    for (i64 part = begin; part < end; ++part) {
      const i64 p = part % column_parts;
      Destinations mine;
      mine.column = p * lines / column_parts * line;
      mine.width = std::min(dim, (p + 1) * lines / column_parts * line) - mine.column;
      mine.share = part / column_parts;
      mine.shares = shares;
      body(mine);
    }
  });
}

}  // namespace sok1x

#endif  // SOK1X_DESTINATIONS_H
