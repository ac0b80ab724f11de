// What each tenant has been served, so that those who have had least go first.
//
// The accounts are virtual counters (Sheng et al. 2024, arXiv:2401.00588): a
// tenant that comes with nothing waiting or running is lifted to the least
// account of those that have, so nobody saves up by being away; one that has
// had more keeps its account while it is away, so nobody starts afresh by
// leaving for a moment.
#ifndef HEADRACE_SERVER_BATCHING_TENANT_LEDGER_H_
#define HEADRACE_SERVER_BATCHING_TENANT_LEDGER_H_

#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/container/flat_hash_map.h"

namespace headrace {

// Owned by the batch loop.
class TenantLedger {
 public:
  // One more, or one less, of the tenant's requests waits or runs.
  void Enter(const std::string& tenant);
  void Leave(const std::string& tenant);
  // The tenant has been served so much (ServiceCost); it has entered.
  void Charge(const std::string& tenant, int64_t cost);

  int64_t served(const std::string& tenant) const;
  size_t num_accounts() const { return accounts_.size(); }

 private:
  // Tenants are named by clients: so many are remembered while away.
  static constexpr size_t kMaxAway = 1024;

  struct Account {
    int64_t served = 0;
    int64_t requests = 0;
  };
  // The least account of those that wait or run; -1 when none does.
  int64_t LeastPresent() const;
  void ForgetAway();

  absl::flat_hash_map<std::string, Account> accounts_;
};

}  // namespace headrace

#endif  // HEADRACE_SERVER_BATCHING_TENANT_LEDGER_H_
