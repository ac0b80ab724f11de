// The order in which choices of several tenants are served: higher priority
// first; among equals the tenant that has had least; within a tenant first
// come, first served.
#ifndef HEADRACE_SERVER_BATCHING_FAIR_ORDER_H_
#define HEADRACE_SERVER_BATCHING_FAIR_ORDER_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <tuple>
#include <utility>
#include <vector>

namespace headrace {

// `Choice` has id, priority, order, and tenant: an index into `accounts`.
template <typename Choice>
class FairOrder {
 public:
  // accounts[t]: what tenant t has had.
  FairOrder(std::vector<Choice> choices, std::vector<int64_t> accounts)
      : choices_(std::move(choices)), accounts_(std::move(accounts)) {
    std::sort(choices_.begin(), choices_.end(),
              [](const Choice& a, const Choice& b) {
                return std::tuple(-a.priority, a.tenant, a.order, a.id) <
                       std::tuple(-b.priority, b.tenant, b.order, b.id);
              });
  }

  // The next choice, or null when all were taken.
  const Choice* Take() {
    if (lines_.empty()) NextPriority();
    if (lines_.empty()) return nullptr;
    const auto next = std::min_element(
        lines_.begin(), lines_.end(), [this](const Line& a, const Line& b) {
          return Rank(choices_[a.begin]) < Rank(choices_[b.begin]);
        });
    const Choice* const choice = &choices_[next->begin];
    if (++next->begin == next->end) lines_.erase(next);
    return choice;
  }

  // `tenant` is given so much more, which counts from the next Take() on.
  void Charge(size_t tenant, int64_t cost) { accounts_[tenant] += cost; }

 private:
  // Choices of one tenant and priority: [begin, end) of choices_.
  struct Line {
    size_t begin;
    size_t end;
  };

  auto Rank(const Choice& choice) const {
    return std::tuple(accounts_[choice.tenant], choice.order, choice.id);
  }

  void NextPriority() {
    const size_t first = at_;
    while (at_ < choices_.size() &&
           choices_[at_].priority == choices_[first].priority) {
      if (at_ == first || choices_[at_].tenant != choices_[at_ - 1].tenant) {
        lines_.push_back({at_, at_});
      }
      lines_.back().end = ++at_;
    }
  }

  std::vector<Choice> choices_;
  std::vector<int64_t> accounts_;
  std::vector<Line> lines_;
  size_t at_ = 0;  // the first choice that is in no line yet
};

}  // namespace headrace

#endif  // HEADRACE_SERVER_BATCHING_FAIR_ORDER_H_
