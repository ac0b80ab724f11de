// v1.Vector: float32 values for a hook, sent with the request or by the hash of
// what VectorService has.
#ifndef HEADRACE_SERVER_CONVERT_VECTORS_H_
#define HEADRACE_SERVER_CONVERT_VECTORS_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "headrace/v1/interventions.pb.h"
#include "headrace/v1/vectors.pb.h"
#include "server/convert/serving_context.h"
#include "server/convert/violations.h"
#include "server/vectors/vector_store.h"

namespace headrace {

// The values of little-endian `bytes`, or nullopt and a violation of `field`
// when one is not finite or the last is not whole.
std::optional<std::vector<float>> ParseFloats(const std::string& bytes,
                                              const std::string& field,
                                              Violations& violations);

// What is stored under the hash; `rows` is null, and a violation added, when
// there is nothing.
StoredEntry FindStored(const std::string& sha256, const std::string& field,
                       const ServingContext& context, Violations& violations);

// The vector's values, or nullopt and a violation when they are not `width`
// finite ones.
std::optional<std::vector<float>> ResolveVector(const v1::Vector& proto,
                                                const std::string& field,
                                                int64_t width,
                                                const ServingContext& context,
                                                Violations& violations);

// How long something is to be kept; nullopt is the default, and what is out of
// range a violation.
absl::Duration ResolveTimeToLive(std::optional<double> seconds,
                                 const std::string& field,
                                 const ServingContext& context,
                                 Violations& violations);

// The RPCs of VectorService. Errors: INVALID_ARGUMENT; NOT_FOUND (with
// ResourceInfo); RESOURCE_EXHAUSTED (with QuotaFailure).
absl::StatusOr<v1::PutVectorResponse> HandlePutVector(
    const v1::PutVectorRequest& proto, const ServingContext& context);
absl::StatusOr<v1::GetVectorResponse> HandleGetVector(
    const v1::GetVectorRequest& proto, const ServingContext& context);
absl::StatusOr<v1::DeleteVectorResponse> HandleDeleteVector(
    const v1::DeleteVectorRequest& proto, const ServingContext& context);

}  // namespace headrace

#endif  // HEADRACE_SERVER_CONVERT_VECTORS_H_
