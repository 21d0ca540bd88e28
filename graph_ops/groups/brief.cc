// See brief.h: what ranks say, and those on the way.
#include "brief_numbers.h"

namespace sok1x {

using namespace briefly;

Numbers Shared(std::vector<int64_t> numbers) {
  return std::make_shared<const std::vector<int64_t>>(std::move(numbers));
}

std::string BriefBundle(const Bundle& bundle, int64_t ops, bool said) {
  Writer to(kBriefBundle);
  const Ops& said_of = *bundle.ops;
  to.Number(ops);
  to.Number(said);
  if (!said) {
    to.Number(said_of.context);
    to.Number(static_cast<int64_t>(said_of.signature));
    to.Number(said_of.count);
    to.Text(said_of.places);
    to.Text(said_of.names);
  }
  to.Number(bundle.ticket);
  to.Number(bundle.step);
  to.Rows(bundle.runs->data(), said_of.count, 3);
  to.Number(bundle.width);
  to.Marked(*bundle.headers, said_of.count, bundle.width);
  return *to.data();
}

bool ReadBriefBundle(const std::string& data, KnownOps* known, Bundle* bundle, int64_t* ops, bool* said) {
  Reader from(data);
  const int64_t number = from.Number();
  const bool knows = from.Number() != 0;
  if (knows) {
    if (number < 0 || number >= static_cast<int64_t>(known->size())) return false;
    bundle->ops = (*known)[number];
  } else {
    auto all = std::make_shared<Ops>();
    all->context = from.Number();
    all->signature = static_cast<uint64_t>(from.Number());
    all->count = from.Count();
    all->places = from.Text();
    all->names = from.Text();
    if (!from.good() || static_cast<int64_t>(all->places.size()) != kPlaceBytes * all->count) return false;
    bundle->ops = all;
    if (number == 0) known->clear();  // the sender has begun anew
    if (number == static_cast<int64_t>(known->size())) known->push_back(bundle->ops);
  }
  if (ops != nullptr) *ops = number;
  if (said != nullptr) *said = knows;
  bundle->ticket = from.Number();
  bundle->step = from.Number();
  std::vector<int64_t> runs, headers;
  if (!from.Rows(bundle->ops->count, 3, &runs)) return false;
  bundle->width = from.Number();
  if (!from.Marked(bundle->ops->count, bundle->width, &headers)) return false;
  bundle->runs = Shared(std::move(runs));
  bundle->headers = Shared(std::move(headers));
  return from.ended();
}

std::string PlainBundle(const Bundle& bundle) {
  const Ops& ops = *bundle.ops;
  std::string data(1, static_cast<char>(kPlainBundle));
  AddNumber(&data, bundle.ticket);
  AddNumber(&data, ops.context);
  AddNumber(&data, bundle.step);
  AddNumber(&data, ops.signature);
  AddNumber(&data, static_cast<uint32_t>(ops.count));
  AddNumber(&data, static_cast<uint32_t>(ops.names.size()));
  AddNumber(&data, static_cast<uint32_t>(8 * bundle.headers->size()));
  data += ops.places;
  Add(&data, bundle.runs->data(), 8 * bundle.runs->size());
  for (int64_t t = 0; t < ops.count; ++t) AddNumber(&data, static_cast<uint32_t>(bundle.width));
  data += ops.names;
  Add(&data, bundle.headers->data(), 8 * bundle.headers->size());
  return data;
}

std::string BriefSeveral(const std::vector<std::string>& messages) {
  Writer to(kBriefSeveral);
  to.Number(messages.size());
  for (const std::string& message : messages) to.Text(message);
  return *to.data();
}

bool ReadBriefSeveral(const std::string& data, std::vector<std::string>* messages) {
  Reader from(data);
  for (int64_t left = from.Count(); left > 0 && from.good(); --left) messages->push_back(from.Text());
  return from.ended();
}

std::string BriefMerged(const std::vector<Rising>& bundles, size_t bytes, size_t* at) {
  Writer to(kBriefMerged);
  const Bundle& first = bundles[*at].bundle;
  const int64_t count = first.ops->count, size = count * first.width;
  to.Number(bundles[*at].rank);
  to.Number(bundles[*at].ops);
  to.Number(first.ticket);
  to.Number(first.step);
  to.Rows(first.runs->data(), count, 3);
  to.Number(first.width);
  std::vector<int64_t> before = *first.headers, different, bare;
  int64_t ready = ReadyOf(before.data(), count, first.width);
  Mark(before.data(), count, first.width, -ready);
  to.Number(ready);
  to.Rows(before.data(), count, first.width);
  int64_t regular = 0;  // that follow, each the next rank, which says the same as the one before it
  for (++*at; *at < bundles.size() && to.data()->size() < bytes; ++*at) {
    const Rising &one = bundles[*at], &last = bundles[*at - 1];
    const Bundle& bundle = one.bundle;
    int64_t now = ready, headers = 0;
    if (bundle.headers != last.bundle.headers) {
      bare = *bundle.headers;
      now = ReadyOf(bare.data(), count, bundle.width);
      Mark(bare.data(), count, bundle.width, -now);
      headers = bare == before ? 0 : bare == different ? kLastButOne : kNew;
    }
    const std::pair<int64_t, int64_t> others[] = {
        {kRank, one.rank - last.rank - 1}, {kOps, one.ops - last.ops}, {kTicket, bundle.ticket - last.bundle.ticket},
        {kStep, bundle.step - last.bundle.step}, {kReady, now - ready}};
    int64_t otherwise = headers;
    for (const auto& other : others) otherwise |= other.second != 0 ? other.first : 0;
    if (otherwise == 0) {
      ++regular;
      continue;
    }
    to.Number(regular + 1);
    regular = 0;
    to.Number(otherwise);
    for (const auto& other : others) {
      if (other.second != 0) to.Number(other.second);
    }
    if (headers == kNew) to.Changes(bare.data(), before.data(), size);
    ready = now;
    if (headers == 0) continue;
    different.swap(before);
    before.swap(bare);
  }
  if (regular > 0) to.Number(-regular);
  return *to.data();
}

bool ReadBriefMerged(const std::string& data, const std::vector<KnownOps>& known, std::vector<Rising>* bundles) {
  Reader from(data);
  Rising one;
  const int64_t ranks = known.size();
  const auto knows = [&](int64_t rank, int64_t ops) {
    return from.good() && rank >= 0 && rank < ranks && ops >= 0 && ops < static_cast<int64_t>(known[rank].size());
  };
  one.rank = from.Number();
  one.ops = from.Number();
  if (!knows(one.rank, one.ops)) return false;
  Bundle& bundle = one.bundle;
  bundle.ops = known[one.rank][one.ops];
  bundle.ticket = from.Number();
  bundle.step = from.Number();
  const int64_t count = bundle.ops->count;
  std::vector<int64_t> runs, before, different;
  if (!from.Rows(count, 3, &runs)) return false;
  bundle.runs = Shared(std::move(runs));
  bundle.width = from.Number();
  int64_t ready = from.Number();
  if (!from.Rows(count, bundle.width, &before)) return false;
  const auto add = [&] {
    if (!knows(one.rank, one.ops) || known[one.rank][one.ops]->count != count) return false;
    bundle.ops = known[one.rank][one.ops];
    bundles->push_back(one);
    return true;
  };
  const auto marked = [&] {
    std::vector<int64_t> headers = before;
    if (bundle.width > 0) Mark(headers.data(), count, bundle.width, ready);
    bundle.headers = Shared(std::move(headers));
    return add();
  };
  if (!marked()) return false;
  while (from.good() && !from.ended()) {
    const int64_t told = from.Number(), regular = told < 0 ? -told : told - 1;
    if (regular > ranks) return false;
    for (int64_t i = 0; i < regular; ++i) {
      ++one.rank;
      if (!add()) return false;
    }
    if (told < 0) continue;
    const int64_t otherwise = from.Number();
    const auto more = [&](Otherwise what) { return (otherwise & what) != 0 ? from.Number() : 0; };
    one.rank += 1 + more(kRank);
    one.ops += more(kOps);
    bundle.ticket += more(kTicket);
    bundle.step += more(kStep);
    ready += more(kReady);
    if (!from.Headers(otherwise, &before, &different)) return false;
    if (!((otherwise & (kReady | kLastButOne | kNew)) == 0 ? add() : marked())) return false;
  }
  return from.ended();
}

}  // namespace sok1x
