// What the sums of a group's members are made of on hosts: terms, offered to whatever takes them (sums, group_sum.cu,
// or an optimizer's steps, group_sum_update.cu), and how members are shared out over threads.
#ifndef SOK1X_GROUP_SUM_HOST_H
#define SOK1X_GROUP_SUM_HOST_H
#include "destinations.h"
#include "groups.cuh"
#include "segment_sum_host.h"

namespace sok1x {

// The segments begin to end - 1 of a member, which one thread sums.
struct Part {
  i64 member, begin, end;
};

// Offers the terms of those segments to a sink, in order: see Terms.
template <class Sink, class Values, class ScaleOf>
void offer(const SumMember& m, const Part& part, const Values& values, const ScaleOf& scale_of, Sink* sink) {
  Terms<Sink, Values, ScaleOf> terms(sink, values, m.dim, part.begin, part.end, scale_of);
  if (m.scales) {
    OfferScaledBags{m.offsets, m.segments, m.n_bags, m.scales}(terms);
  } else if (m.offsets) {
    OfferBags{m.offsets, m.segments, m.n_bags}(terms);
  } else {
    OfferRows{m.segments, m.n}(terms);
  }
  terms.finish();
}

template <class Sink, class Values>
void offer(const SumMember& m, const Part& part, const Values& values, Sink* sink) {
  if (m.scales) {
    offer(m, part, values, Given(), sink);
  } else if (m.mean) {
    offer(m, part, values, OneOverKeys{m.offsets}, sink);
  } else {
    offer(m, part, values, One(), sink);
  }
}

template <class T, class Sink>
void offer_rows(const SumMember& m, const Part& part, Sink* sink) {
  if (m.values.count) {
    offer(m, part, RowsIn<const T>{m.values, m.dim * (i64)sizeof(T)}, sink);
  } else {
    offer(m, part, RowsOf<const T>{(const T*)m.values.base, m.dim}, sink);
  }
}

template <class Sink>
void offer_terms(const SumMember& m, const Part& part, Sink* sink) {
  m.values_half ? offer_rows<u16>(m, part, sink) : offer_rows<float>(m, part, sink);
}

// Calls body(part) for parts that together are all segments of all members, shared out over threads. A member is split
// where its share of the work, in bytes_of(member), is more than one thread's; see destinations.h.
template <class BytesOf, class F>
void for_parts(const SumMember* members, i64 count, const BytesOf& bytes_of, const F& body) {
  i64 bytes = 1;
  for (i64 t = 0; t < count; ++t) bytes += bytes_of(t);
  std::vector<Part> parts;
  const i64 threads = ThreadPool::get().threads();
  for (i64 t = 0; t < count; ++t) {
    const SumMember& m = members[t];
    const i64 shares = std::min(parts_worth(bytes_of(t)), threads * bytes_of(t) / bytes + 1);
    const std::vector<i64> bounds = split_destinations(m.segments, m.n, m.num_segments, m.num_segments, shares);
    for (i64 p = 0; p < shares; ++p) parts.push_back({t, bounds[p], bounds[p + 1]});
  }
  const Part* const first = parts.data();
  parallel_chunks(parts.size(), 1, [=](i64 begin, i64 end) {
    for (const Part* part = first + begin; part < first + end; ++part) body(*part);
  });
}

// Bytes of a member's terms and of as many rows as it has segments, of `floats` floats for each of a row's.
inline i64 bytes_of_terms(const SumMember& m, i64 floats) {
  return (m.n * (m.values_half ? 2 : 4) + m.num_segments * 4 * floats) * m.dim;
}

}  // namespace sok1x

#endif  // SOK1X_GROUP_SUM_HOST_H
