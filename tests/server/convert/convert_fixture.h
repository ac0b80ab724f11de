// A serving context on a fake engine, and ways to read what was refused.
#ifndef HEADRACE_TESTS_SERVER_CONVERT_CONVERT_FIXTURE_H_
#define HEADRACE_TESTS_SERVER_CONVERT_CONVERT_FIXTURE_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "google/rpc/error_details.pb.h"
#include "gtest/gtest.h"
#include "server/convert/error_details.h"
#include "server/convert/serving_context.h"
#include "server/vectors/vector_store.h"
#include "tests/fakes/fake_engine.h"

namespace headrace {

// The violations that a status carries, as "field: description".
inline std::vector<std::string> ViolationsOf(const absl::Status& status) {
  std::vector<std::string> lines;
  const google::rpc::Status rich = ToRpcStatus(status);
  for (const google::protobuf::Any& any : rich.details()) {
    google::rpc::BadRequest details;
    if (!any.UnpackTo(&details)) continue;
    for (const auto& violation : details.field_violations()) {
      lines.push_back(violation.field() + ": " + violation.description());
    }
  }
  return lines;
}

// Only the fields.
inline std::vector<std::string> FieldsOf(const absl::Status& status) {
  std::vector<std::string> fields;
  for (const std::string& line : ViolationsOf(status)) {
    fields.push_back(line.substr(0, line.find(": ")));
  }
  return fields;
}

// Little-endian float32.
inline std::string Bytes(const std::vector<float>& values) {
  return {reinterpret_cast<const char*>(values.data()),
          values.size() * sizeof(float)};
}

class ConvertFixture : public ::testing::Test {
 protected:
  void UseEngine(const FakeEngineOptions& options) {
    engine_ = std::make_unique<FakeEngine>(options);
    const KvCacheStats kv_cache = engine_->kv_cache();
    context_ = {.engine = engine_.get(),
                .kv_cache_rows = kv_cache.total_blocks * kv_cache.block_size,
                .max_ring_bytes = 1 << 20,
                .random_seed = [this] { return next_seed_++; },
                .build = "headrace test",
                .vectors = &vectors_};
  }

  void SetUp() override { UseEngine({}); }

  uint64_t next_seed_ = 42;
  std::unique_ptr<FakeEngine> engine_;
  absl::Time now_ = absl::UnixEpoch();
  VectorStore vectors_{{.max_bytes = 1 << 20,
                        .max_time_to_live = absl::Hours(24),
                        .now = [this] { return now_; }}};
  ServingContext context_;
};

}  // namespace headrace

#endif  // HEADRACE_TESTS_SERVER_CONVERT_CONVERT_FIXTURE_H_
