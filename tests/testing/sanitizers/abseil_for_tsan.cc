// Debian's Abseil is built without ThreadSanitizer, which therefore sees none
// of its locks and would call everything under them a race. In builds with it
// these functions stand before the library's of the same names, for our code
// and for every library that is loaded: they call those, and say what a call
// orders.
#include <dlfcn.h>
#include <sanitizer/tsan_interface.h>

#include <bit>
#include <cstddef>
#include <cstdlib>

#include "absl/synchronization/mutex.h"
#include "absl/synchronization/notification.h"

// The annotations of the declarations are for callers.
#pragma clang diagnostic ignored "-Wthread-safety"

namespace absl {
ABSL_NAMESPACE_BEGIN
namespace {

using synchronization_internal::KernelTimeout;

// The library's function that `ours` hides.
template <typename Function>
Function Hidden(Function ours) {
  // How a pointer to a member function that is not virtual is represented.
  struct {
    void* code;
    std::ptrdiff_t adjustment;
  } parts = std::bit_cast<decltype(parts)>(ours);
  Dl_info symbol;
  if (dladdr(parts.code, &symbol) == 0) std::abort();
  parts.code = dlsym(RTLD_NEXT, symbol.dli_sname);
  if (parts.code == nullptr) std::abort();
  return std::bit_cast<Function>(parts);
}

// The mutex that this thread is locking, waiting for or unlocking. Inside these
// calls it evaluates conditions, also those of other threads, under the lock.
thread_local Mutex* busy_mutex = nullptr;

class Busy {
 public:
  explicit Busy(Mutex* mutex) : outer_(busy_mutex) { busy_mutex = mutex; }
  ~Busy() { busy_mutex = outer_; }

 private:
  Mutex* outer_;
};

}  // namespace

void Mutex::Lock() {
  static const auto lock = Hidden(&Mutex::Lock);
  (this->*lock)();
  __tsan_acquire(this);
}

bool Mutex::TryLock() {
  static const auto try_lock = Hidden(&Mutex::TryLock);
  const bool locked = (this->*try_lock)();
  if (locked) __tsan_acquire(this);
  return locked;
}

void Mutex::Unlock() {
  static const auto unlock = Hidden(&Mutex::Unlock);
  const Busy busy(this);
  __tsan_release(this);
  (this->*unlock)();
}

void Mutex::ReaderLock() {
  static const auto reader_lock = Hidden(&Mutex::ReaderLock);
  (this->*reader_lock)();
  __tsan_acquire(this);
}

bool Mutex::ReaderTryLock() {
  static const auto reader_try_lock = Hidden(&Mutex::ReaderTryLock);
  const bool locked = (this->*reader_try_lock)();
  if (locked) __tsan_acquire(this);
  return locked;
}

void Mutex::ReaderUnlock() {
  static const auto reader_unlock = Hidden(&Mutex::ReaderUnlock);
  const Busy busy(this);
  __tsan_release(this);
  (this->*reader_unlock)();
}

// Behind Await(), AwaitWithTimeout() and AwaitWithDeadline().
bool Mutex::AwaitCommon(const Condition& condition, KernelTimeout timeout) {
  static const auto await = Hidden(&Mutex::AwaitCommon);
  const Busy busy(this);
  __tsan_release(this);
  const bool holds = (this->*await)(condition, timeout);
  __tsan_acquire(this);
  return holds;
}

// Behind LockWhen() and its like.
bool Mutex::LockWhenCommon(const Condition& condition, KernelTimeout timeout,
                           bool write) {
  static const auto lock_when = Hidden(&Mutex::LockWhenCommon);
  const Busy busy(this);
  const bool holds = (this->*lock_when)(condition, timeout, write);
  __tsan_acquire(this);
  return holds;
}

bool Condition::Eval() const {
  static const auto eval = Hidden(&Condition::Eval);
  __tsan_acquire(busy_mutex);
  const bool holds = (this->*eval)();
  __tsan_release(busy_mutex);
  return holds;
}

// Behind Wait() and its like.
bool CondVar::WaitCommon(Mutex* mutex, KernelTimeout timeout) {
  static const auto wait = Hidden(&CondVar::WaitCommon);
  const Busy busy(mutex);
  __tsan_release(mutex);
  const bool timed_out = (this->*wait)(mutex, timeout);
  __tsan_acquire(mutex);
  return timed_out;
}

// A notification that has come is read without its mutex.
void Notification::Notify() {
  static const auto notify = Hidden(&Notification::Notify);
  __tsan_release(&notified_yet_);
  (this->*notify)();
}

void Notification::WaitForNotification() const {
  static const auto wait = Hidden(&Notification::WaitForNotification);
  (this->*wait)();
  (void)HasBeenNotified();
}

bool Notification::WaitForNotificationWithTimeout(Duration timeout) const {
  static const auto wait =
      Hidden(&Notification::WaitForNotificationWithTimeout);
  return (this->*wait)(timeout) && HasBeenNotified();
}

bool Notification::WaitForNotificationWithDeadline(Time deadline) const {
  static const auto wait =
      Hidden(&Notification::WaitForNotificationWithDeadline);
  return (this->*wait)(deadline) && HasBeenNotified();
}

ABSL_NAMESPACE_END
}  // namespace absl
