#include "server/batching/tenant_ledger.h"

#include <algorithm>

namespace headrace {

void TenantLedger::Enter(const std::string& tenant) {
  const int64_t least = LeastPresent();
  Account& account = accounts_[tenant];
  if (account.requests == 0) account.served = std::max(account.served, least);
  ++account.requests;
}

void TenantLedger::Leave(const std::string& tenant) {
  if (--accounts_.at(tenant).requests == 0) ForgetAway();
}

void TenantLedger::Charge(const std::string& tenant, int64_t cost) {
  accounts_.at(tenant).served += cost;
}

int64_t TenantLedger::served(const std::string& tenant) const {
  const auto found = accounts_.find(tenant);
  return found == accounts_.end() ? 0 : found->second.served;
}

int64_t TenantLedger::LeastPresent() const {
  int64_t least = -1;
  for (const auto& [tenant, account] : accounts_) {
    if (account.requests == 0) continue;
    if (least < 0 || account.served < least) least = account.served;
  }
  return least;
}

// Those that would be lifted anyway, all when nobody is left to be fair to,
// and the least when there are too many.
void TenantLedger::ForgetAway() {
  const int64_t least = LeastPresent();
  absl::erase_if(accounts_, [&](const auto& entry) {
    const Account& account = entry.second;
    return account.requests == 0 && (least < 0 || account.served <= least);
  });
  size_t away = 0;
  auto smallest = accounts_.end();
  for (auto it = accounts_.begin(); it != accounts_.end(); ++it) {
    if (it->second.requests > 0) continue;
    ++away;
    if (smallest == accounts_.end() ||
        it->second.served < smallest->second.served) {
      smallest = it;
    }
  }
  if (away > kMaxAway) accounts_.erase(smallest);
}

}  // namespace headrace
