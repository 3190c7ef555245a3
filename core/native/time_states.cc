// See time_states.h.
#include "time_states.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <numeric>
#include <utility>

namespace tailrace::native {

namespace {

// Below it a density is rounding.
constexpr double kNothing = 1e-9;

// A state that is held for a part of a span of time.
struct Piece {
  int64_t start, end;
  size_t state;
  double density;
};

// Pieces that overlap -> spans in which each state is held for a constant part of the time.
class Sweep {
 public:
  explicit Sweep(size_t states) : density_(states), count_(states) {}

  void add(const Piece &piece) {
    if (piece.start >= piece.end) return;
    edges_.push_back({piece.start, piece.state, 1, piece.density});
    edges_.push_back({piece.end, piece.state, -1, piece.density});
  }

  // Calls visit(start, end, densities) for each span in which any state is held, in the order of time; forgets the
  // pieces.
  template <typename Visit>
  void each_span(Visit visit) {
    std::stable_sort(edges_.begin(), edges_.end(), [](const Edge &a, const Edge &b) { return a.when < b.when; });
    int held = 0;
    for (size_t i = 0; i < edges_.size();) {
      const int64_t now = edges_[i].when;
      for (; i < edges_.size() && edges_[i].when == now; ++i) held += pass(edges_[i]);
      if (held > 0) visit(now, edges_[i].when, density_);
    }
    edges_.clear();
  }

 private:
  struct Edge {
    int64_t when;
    size_t state;
    int change;
    double density;
  };

  int pass(const Edge &edge) {
    density_[edge.state] += edge.change * edge.density;
    count_[edge.state] += edge.change;
    if (count_[edge.state] == 0) density_[edge.state] = 0.0;  // no rounding stays behind
    return edge.change;
  }

  std::vector<Edge> edges_;
  std::vector<double> density_;
  std::vector<int> count_;
};

// The rows of each owner in a view that is sorted by group; an owner has `groups` of these.
std::vector<size_t> bounds_of(const IntervalView &rows, size_t owners, int64_t groups) {
  std::vector<size_t> bounds(owners + 1, 0);
  for (size_t i = 0; i < rows.size; ++i) ++bounds[static_cast<size_t>(rows.group[i] / groups) + 1];
  std::partial_sum(bounds.begin(), bounds.end(), bounds.begin());
  return bounds;
}

// Calls put(state, density) for the states of a span, each for what the states before it in `order` leave of the time.
template <typename Put>
void in_order(const std::vector<size_t> &order, const std::vector<double> &held, Put put) {
  double rest = 1.0;
  for (const size_t state : order) {
    const double part = std::min(rest, held[state]);
    if (part <= kNothing) continue;
    rest -= part;
    put(state, part, rest <= kNothing);
    if (rest <= kNothing) break;
  }
}

class Folder {
 public:
  Folder(const IntervalView &lives, const IntervalView &calls, const std::vector<ThreadShares> &shares,
         const CallKinds &kinds)
      : lives_(lives),
        calls_(calls),
        shares_(shares),
        kinds_(static_cast<size_t>(kinds.count)),
        data_(static_cast<size_t>(kinds.data)),
        sockets_(static_cast<size_t>(kinds.sockets)),
        pipes_(static_cast<size_t>(kinds.pipes)),
        threads_(static_cast<size_t>(kinds.threads)),
        states_(static_cast<size_t>(kinds.states())),
        of_group_(states_),
        life_(bounds_of(lives, shares.size(), 1)),
        call_(bounds_of(calls, shares.size(), kinds.count)),
        thread_(kinds_ + 1),
        process_(states_ + 2),
        group_(states_ + 2),
        spent_(states_) {
    std::iota(of_group_.begin(), of_group_.end(), 0);
    for (const size_t state : of_group_) {
      if (state == elsewhere()) continue;
      of_process_.push_back(state);
      if (state == state_of(sockets_)) of_process_.push_back(sockets_within());
      if (state == state_of(pipes_)) of_process_.push_back(pipes_within());
    }
    of_process_.push_back(elsewhere());
    of_group_.insert(of_group_.end() - 1, {sockets_within(), pipes_within()});
  }

  // Adds the states of a thread to those of its process.
  void thread(size_t t) {
    for (size_t i = life_[t]; i < life_[t + 1]; ++i) {
      thread_.add({lives_.start[i], lives_.end[i], kinds_, 1.0});
    }
    for (size_t i = call_[t]; i < call_[t + 1]; ++i) {
      const Interval row = calls_.at(i);
      const auto length = static_cast<double>(minus(row.end, row.start));
      if (length <= 0) continue;
      const size_t kind = static_cast<size_t>(calls_.group[i]) - t * kinds_;
      thread_.add({row.start, row.end, kind, std::min(1.0, static_cast<double>(row.weight) / length)});
    }
    thread_.each_span([&](int64_t start, int64_t end, const std::vector<double> &held) {
      share_out({start, end, 0, 0.0}, held, shares_[t]);
    });
  }

  // Adds the states of the process whose threads were added to those of its group.
  void finish_process() {
    process_.each_span([&](int64_t start, int64_t end, const std::vector<double> &held) {
      in_order(of_process_, held, [&](size_t state, double part, bool) { group_.add({start, end, state, part}); });
    });
  }

  // Puts out the states of the group whose processes were added.
  void finish_group(int64_t group, Intervals *out) {
    group_.each_span([&](int64_t start, int64_t end, const std::vector<double> &held) {
      int64_t left = minus(end, start);
      const auto length = static_cast<double>(left);
      std::fill(spent_.begin(), spent_.end(), 0);
      in_order(of_group_, held, [&](size_t state, double part, bool last) {
        const int64_t weight = last ? left : std::min<int64_t>(left, std::llround(length * part));
        left -= weight;
        spent_[told(state)] += weight;
      });
      for (size_t state = 0; state < states_; ++state) {
        const int64_t key = group * static_cast<int64_t>(states_) + static_cast<int64_t>(state);
        if (spent_[state] > 0) out->add(key, {start, end, spent_[state]});
      }
    });
  }

 private:
  size_t computing() const { return data_; }
  size_t unknown() const { return data_ + 1; }
  size_t ready() const { return data_ + 2; }
  size_t elsewhere() const { return pipes_ + 3; }
  size_t state_of(size_t kind) const { return kind < data_ ? kind : kind < pipes_ ? kind + 3 : kind + 4; }

  // Two more, which are told as what they are a part of.
  size_t sockets_within() const { return states_; }
  size_t pipes_within() const { return states_ + 1; }
  size_t told(size_t state) const {
    return state < states_ ? state : state_of(state == sockets_within() ? sockets_ : pipes_);
  }

  // A thread is in one call at a time, so parts of a span that are in calls of several kinds come one after the other.
  void share_out(Piece piece, const std::vector<double> &held, const ThreadShares &share) {
    double rest = 1.0, computed = 0.0, starved = 0.0;
    const auto put = [&](size_t state, double density) {
      piece.state = state;
      piece.density = density;
      if (density > kNothing) process_.add(piece);
    };
    for (size_t kind = 0; kind < kinds_; ++kind) {
      const double part = std::min(rest, held[kind]);
      rest -= part;
      const double ready = kind < data_ ? part * share.ready_in_call : 0.0;
      const double beside = kind == threads_ ? part * share.computed_beside : 0.0;
      const double ready_beside = kind == threads_ ? part * share.ready_beside : 0.0;
      const double within = part * (kind == sockets_ ? share.sockets_within
                                    : kind == pipes_ ? share.pipes_within
                                                     : 0.0);
      starved += ready + ready_beside;
      computed += beside;
      put(state_of(kind), part - ready - beside - ready_beside - within);
      if (within > 0.0) put(kind == sockets_ ? sockets_within() : pipes_within(), within);
    }
    if (held[kinds_] <= 0) rest = 0.0;  // a call outside of its thread's life: two clocks
    put(unknown(), rest * (1.0 - share.known));
    rest *= share.known;
    put(computing(), computed + rest * std::max(0.0, 1.0 - share.ready - share.elsewhere));
    put(ready(), starved + rest * share.ready);
    put(elsewhere(), rest * share.elsewhere);
  }

  const IntervalView &lives_, &calls_;
  const std::vector<ThreadShares> &shares_;
  const size_t kinds_, data_, sockets_, pipes_, threads_, states_;
  std::vector<size_t> of_group_, of_process_;  // the orders of states
  const std::vector<size_t> life_, call_;
  Sweep thread_, process_, group_;
  std::vector<int64_t> spent_;  // ns of a span by state
};

}  // namespace

Intervals time_states(const std::vector<int64_t> &group, const std::vector<int64_t> &process,
                      const std::vector<ThreadShares> &shares, const IntervalView &lives, const IntervalView &calls,
                      const CallKinds &kinds) {
  std::vector<size_t> order(group.size());
  std::iota(order.begin(), order.end(), 0);
  const auto key = [&](size_t t) { return std::pair(group[t], process[t]); };
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return key(a) < key(b); });
  Intervals rows;
  Folder folder(lives, calls, shares, kinds);
  for (size_t i = 0; i < order.size(); ++i) {
    const auto of = key(order[i]);
    if (of.first < 0) continue;
    folder.thread(order[i]);
    const bool is_last = i + 1 == order.size();
    if (is_last || key(order[i + 1]) != of) folder.finish_process();
    if (is_last || group[order[i + 1]] != of.first) folder.finish_group(of.first, &rows);
  }
  return rows;
}

}  // namespace tailrace::native
