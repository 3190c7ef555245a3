// See process_ends.h.
#include "process_ends.h"

#include <algorithm>
#include <deque>
#include <map>
#include <numeric>
#include <set>
#include <tuple>
#include <utility>

namespace tailrace::native {
namespace {

constexpr int64_t kSignalBits = 0x7F;
constexpr int64_t kOurs = 4;  // ChildKind

// What the status of a wait says of the process's exit code, the likeliest first.
enum class Agreement : uint8_t { kSame, kSignal, kOther };

Agreement agreement(const EndingProcess &process, const SeenEnd &wait) {
  if (!process.code || wait.status == (*process.code & 0xFF) << 8) return Agreement::kSame;
  return (wait.status & kSignalBits) != 0 ? Agreement::kSignal : Agreement::kOther;
}

// The waits that may have seen the end of a process, the likeliest first.
struct Offers {
  std::vector<size_t> waits;
  Agreement agreement = Agreement::kSame;
  bool is_of_parent = false;  // the first one
  bool is_of_one = true;      // all that are as likely are by one process
};

class Matching {
 public:
  Matching(const std::vector<EndingProcess> &processes, const std::vector<SeenEnd> &waits)
      : processes_(processes), waits_(waits) {
    found_.of.assign(processes.size(), -1);
    found_.went_on.assign(processes.size(), false);
    for (const SeenEnd &wait : waits) {
      if (wait.kind == kOurs) tasks_.emplace(wait.waiter, wait.pid);
    }
  }

  // The processes and waits of one pid of a host, by their places.
  void add_pid(const std::vector<size_t> &images, const std::vector<size_t> &waits) {
    if (images.size() == 1 && waits.size() == 1) return add_pair(images[0], waits[0]);  // nearly all
    std::vector<Offers> offers;
    for (const size_t image : images) offers.push_back(offers_for(image, waits));
    const std::vector<bool> goes_on = followed(images, images);
    std::vector<size_t> order(images.size());
    std::iota(order.begin(), order.end(), size_t{0});
    std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) {
      const auto key = [&](size_t at) {
        const Offers &of = offers[at];
        return std::make_tuple(bool(goes_on[at]), of.agreement, !of.is_of_parent, processes_[images[at]].end);
      };
      return key(a) < key(b);
    });
    const std::map<size_t, size_t> pairs = maximum(order, offers);
    std::vector<bool> is_taken(waits.size(), false);
    std::vector<size_t> with_end;
    for (const auto &[at, wait] : pairs) {
      with_end.push_back(images[at]);
      is_taken[static_cast<size_t>(std::find(waits.begin(), waits.end(), wait) - waits.begin())] = true;
      // Only a killed process needs to know which wait it was.
      if (offers[at].is_of_one || processes_[images[at]].has_exit) found_.of[images[at]] = static_cast<int64_t>(wait);
    }
    const std::vector<bool> ended = followed(images, with_end);
    for (size_t at = 0; at < images.size(); ++at) {
      if (ended[at] && pairs.count(at) == 0) found_.went_on[images[at]] = true;
    }
    for (size_t i = 0; i < waits.size(); ++i) {
      if (!is_taken[i]) found_.unmatched.push_back(waits[i]);
    }
  }

  // Without the waits for what is known to be untraced.
  void add_first_of_namespaces(const std::function<bool(const std::string &, int64_t)> &is_untraced) {
    std::vector<size_t> firsts;
    for (size_t i = 0; i < processes_.size(); ++i) {
      if (processes_[i].ppid == 0 && found_.of[i] < 0) firsts.push_back(i);
    }
    std::stable_sort(firsts.begin(), firsts.end(),
                     [&](size_t a, size_t b) { return processes_[a].end < processes_[b].end; });
    for (const size_t image : firsts) {
      std::vector<size_t> fits;
      for (const size_t wait : found_.unmatched) {
        if (is_outside(waits_[wait], processes_[image]) && !is_untraced(waits_[wait].host, waits_[wait].pid))
          fits.push_back(wait);
      }
      if (fits.empty()) continue;
      if (fits.size() == 1 || processes_[image].has_exit) found_.of[image] = static_cast<int64_t>(fits[0]);
      found_.unmatched.erase(std::find(found_.unmatched.begin(), found_.unmatched.end(), fits[0]));
    }
  }

  Ends take() { return std::move(found_); }

 private:
  const EndingProcess *waiter_of(const SeenEnd &wait) const {
    return wait.waiter < 0 ? nullptr : &processes_[static_cast<size_t>(wait.waiter)];
  }
  bool is_parents(const SeenEnd &wait, const EndingProcess &image) const {
    const EndingProcess *waiter = waiter_of(wait);
    return waiter != nullptr &&
           (!image.ppid || *image.ppid == waiter->pid || tasks_.count({wait.waiter, *image.ppid}) != 0);
  }

  void add_pair(size_t image, size_t wait) {
    const EndingProcess &process = processes_[image];
    const SeenEnd &end = waits_[wait];
    const EndingProcess *waiter = waiter_of(end);
    const bool is_near = waiter == nullptr || waiter->begin <= process.begin || is_parents(end, process);
    const bool is_sure = agreement(process, end) == Agreement::kSame || waiter == nullptr || is_parents(end, process);
    if (is_near && is_sure && process.end <= end.at) {
      found_.of[image] = static_cast<int64_t>(wait);
    } else {
      found_.unmatched.push_back(wait);
    }
  }

  Offers offers_for(size_t at, const std::vector<size_t> &waits) const {
    const EndingProcess &image = processes_[at];
    std::vector<size_t> fits;
    for (const Agreement wanted : {Agreement::kSame, Agreement::kSignal, Agreement::kOther}) {
      // A parent that began later is the second row of a process that changed its user.
      for (const bool by_begin : {true, false}) {
        for (const size_t wait : waits) {
          const SeenEnd &end = waits_[wait];
          const EndingProcess *waiter = waiter_of(end);
          const bool is_near =
              by_begin ? (waiter == nullptr ? 0 : waiter->begin) <= image.begin : is_parents(end, image);
          const bool is_sure = wanted == Agreement::kSame || waiter == nullptr || is_parents(end, image);
          if (end.at >= image.end && agreement(image, end) == wanted && is_near && is_sure) fits.push_back(wait);
        }
        if (!fits.empty()) return ordered(image, wanted, std::move(fits));
      }
    }
    return {};
  }

  Offers ordered(const EndingProcess &image, Agreement agreement, std::vector<size_t> fits) const {
    std::stable_sort(fits.begin(), fits.end(),
                     [&](size_t a, size_t b) { return is_parents(waits_[a], image) > is_parents(waits_[b], image); });
    Offers out;
    out.agreement = agreement;
    out.is_of_parent = is_parents(waits_[fits[0]], image);
    for (const size_t wait : fits) {
      const bool is_as_likely = is_parents(waits_[wait], image) == out.is_of_parent;
      if (is_as_likely && waits_[wait].waiter != waits_[fits[0]].waiter) out.is_of_one = false;
    }
    out.waits = std::move(fits);
    return out;
  }

  // Whether each of `images` may have gone on as one of `others`: it has no end, and the other one begins after it and
  // has the same parent, or an unknown one.
  std::vector<bool> followed(const std::vector<size_t> &images, const std::vector<size_t> &others) const {
    std::map<std::optional<int64_t>, int64_t> begin;
    int64_t last = others.empty() ? -1 : 0;
    for (const size_t other : others) {
      int64_t &latest = begin[processes_[other].ppid];
      latest = std::max(latest, processes_[other].begin);
      last = std::max(last, processes_[other].begin);
    }
    const auto latest = [&](const std::optional<int64_t> &ppid) {
      const auto known = begin.find(ppid);
      return known == begin.end() ? int64_t{-1} : known->second;
    };
    std::vector<bool> out;
    for (const size_t image : images) {
      const EndingProcess &row = processes_[image];
      const int64_t limit = row.ppid ? std::max(latest(row.ppid), latest(std::nullopt)) : last;
      out.push_back(!row.has_exit && row.end <= limit);
    }
    return out;
  }

  // process -> wait: each process, in `order`, takes the first free wait of its offers, or one whose process can take
  // another wait instead (the shortest augmenting path).
  static std::map<size_t, size_t> maximum(const std::vector<size_t> &order, const std::vector<Offers> &offers) {
    std::map<size_t, size_t> owner, matched;
    for (const size_t one : order) {
      std::map<size_t, size_t> reached_from;
      std::deque<size_t> queue = {one};
      std::optional<size_t> free;
      while (!queue.empty() && !free) {
        const size_t who = queue.front();
        queue.pop_front();
        for (const size_t offer : offers[who].waits) {
          if (!reached_from.emplace(offer, who).second) continue;
          const auto owned = owner.find(offer);
          if (owned == owner.end()) {
            free = offer;
            break;
          }
          queue.push_back(owned->second);
        }
      }
      while (free) {
        const size_t who = reached_from.at(*free);
        const auto before = matched.find(who);
        const std::optional<size_t> next = before == matched.end() ? std::nullopt : std::optional(before->second);
        owner[*free] = who;
        matched[who] = *free;
        free = next;
      }
    }
    return matched;
  }

  bool is_outside(const SeenEnd &wait, const EndingProcess &image) const {
    const EndingProcess *waiter = waiter_of(wait);
    return waiter != nullptr && waiter->begin <= image.begin && image.end <= wait.at && wait.host == image.host &&
           agreement(image, wait) != Agreement::kOther;
  }

  const std::vector<EndingProcess> &processes_;
  const std::vector<SeenEnd> &waits_;
  std::set<std::pair<int64_t, int64_t>> tasks_;  // a process, and the pid of a child that shared its memory
  Ends found_;
};

}  // namespace

Ends match_ends(const std::vector<EndingProcess> &processes, const std::vector<SeenEnd> &waits,
                const std::function<bool(const std::string &, int64_t)> &is_untraced) {
  using Place = std::pair<std::string, int64_t>;
  std::map<Place, std::vector<size_t>> images, of_place;
  std::vector<const Place *> order;  // of the waits
  for (size_t i = 0; i < processes.size(); ++i) images[{processes[i].host, processes[i].pid}].push_back(i);
  for (size_t i = 0; i < waits.size(); ++i) {
    const auto at = of_place.try_emplace({waits[i].host, waits[i].pid}).first;
    if (at->second.empty()) order.push_back(&at->first);
    at->second.push_back(i);
  }
  Matching matching(processes, waits);
  for (const Place *place : order) matching.add_pid(images[*place], of_place[*place]);
  matching.add_first_of_namespaces(is_untraced);
  return matching.take();
}

}  // namespace tailrace::native
