#include "server/convert/vectors.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "server/convert/enums.h"
#include "server/convert/error_details.h"
#include "server/vectors/content_hash.h"

namespace headrace {

namespace {

constexpr absl::Duration kDefaultTimeToLive = absl::Hours(1);
constexpr char kResourceType[] = "headrace.v1.Vector";

// "sha256 …" is what every message calls it.
absl::Status NotStored(const std::string& sha256) {
  return ResourceNotFound(
      kResourceType, sha256,
      absl::StrCat("nothing with sha256 \"", Shortened(sha256, 80),
                   "\" is kept here: it was not put, or its time has passed"));
}

double SecondsUntil(absl::Time time, const ServingContext& context) {
  return absl::ToDoubleSeconds(time - context.vectors->now());
}

v1::RowBlock ToProto(const RowBlock& block) {
  v1::RowBlock proto;
  proto.set_hook(ToProto(block.hook));
  if (block.layer >= 0) proto.set_layer(static_cast<uint32_t>(block.layer));
  proto.set_width(static_cast<uint32_t>(block.width));
  proto.mutable_positions()->Assign(block.positions.begin(),
                                    block.positions.end());
  return proto;
}

void AppendValues(const std::vector<float>& values, std::string& bytes) {
  bytes.append(reinterpret_cast<const char*>(values.data()),
               values.size() * sizeof(float));
}

}  // namespace

std::optional<std::vector<float>> ParseFloats(const std::string& bytes,
                                              const std::string& field,
                                              Violations& violations) {
  if (bytes.empty() || bytes.size() % sizeof(float) != 0) {
    violations.Add(field, absl::StrCat("must hold float32 values of 4 bytes, "
                                       "one at least; has ",
                                       bytes.size(), " bytes"));
    return std::nullopt;
  }
  std::vector<float> values(bytes.size() / sizeof(float));
  std::memcpy(values.data(), bytes.data(), bytes.size());
  const auto bad = std::find_if(values.begin(), values.end(),
                                [](float x) { return !std::isfinite(x); });
  if (bad != values.end()) {
    violations.Add(Indexed(field, bad - values.begin()),
                   absl::StrCat("must be finite; is ", *bad));
    return std::nullopt;
  }
  return values;
}

StoredEntry FindStored(const std::string& sha256, const std::string& field,
                       const ServingContext& context, Violations& violations) {
  if (!IsContentHash(sha256)) {
    violations.Add(field, absl::StrCat("must be 64 lowercase hexadecimal "
                                       "digits; is \"",
                                       Shortened(sha256, 80), "\""));
    return {};
  }
  StoredEntry entry = context.vectors->Find(sha256);
  if (entry.rows == nullptr) {
    violations.AddNotFound(
        field, kResourceType, sha256,
        absl::StrCat("must be kept here, and ", sha256,
                     " is not: it was not put, or its time has passed"));
  }
  return entry;
}

std::optional<std::vector<float>> ResolveVector(const v1::Vector& proto,
                                                const std::string& field,
                                                int64_t width,
                                                const ServingContext& context,
                                                Violations& violations) {
  if (proto.value_case() == v1::Vector::kSha256) {
    const StoredEntry entry =
        FindStored(proto.sha256(), field + ".sha256", context, violations);
    if (entry.rows == nullptr) return std::nullopt;
    const std::vector<float>& vector = entry.rows->vector;
    if (static_cast<int64_t>(vector.size()) == width) return vector;
    violations.Add(
        field + ".sha256",
        entry.rows->blocks.empty()
            ? absl::StrCat("must name a vector of ", width,
                           " values, as many as the hook is wide; has ",
                           vector.size())
            : "must name a vector; these are rows that a request kept");
    return std::nullopt;
  }
  const std::string& bytes = proto.f32();
  const auto wanted = static_cast<size_t>(width) * sizeof(float);
  if (bytes.size() != wanted) {
    violations.Add(
        field + ".f32",
        absl::StrCat("must hold ", width, " float32 values in ", wanted,
                     " bytes, as many as the hook is wide; has ", bytes.size(),
                     " bytes"));
    return std::nullopt;
  }
  return ParseFloats(bytes, field + ".f32", violations);
}

absl::Duration ResolveTimeToLive(std::optional<double> seconds,
                                 const std::string& field,
                                 const ServingContext& context,
                                 Violations& violations) {
  const absl::Duration most = context.vectors->options().max_time_to_live;
  if (!seconds.has_value()) return std::min(kDefaultTimeToLive, most);
  if (*seconds > 0 && absl::Seconds(*seconds) <= most) {
    return absl::Seconds(*seconds);
  }
  violations.Add(field, absl::StrCat("must be above 0 and at most ",
                                     absl::ToDoubleSeconds(most),
                                     " seconds; is ", *seconds));
  return kDefaultTimeToLive;
}

absl::StatusOr<v1::PutVectorResponse> HandlePutVector(
    const v1::PutVectorRequest& proto, const ServingContext& context) {
  Violations violations;
  std::optional<std::vector<float>> values =
      ParseFloats(proto.f32(), "f32", violations);
  const absl::Duration time_to_live = ResolveTimeToLive(
      proto.has_time_to_live() ? std::optional(proto.time_to_live())
                               : std::nullopt,
      "time_to_live", context, violations);
  if (!violations.empty()) return violations.ToStatus();
  ContentHash hash;
  hash.Add(proto.f32());
  const std::string sha256 = hash.Finish();
  VectorStore& store = *context.vectors;
  std::optional<absl::Time> expires = store.Extend(sha256, time_to_live);
  if (!expires.has_value()) {
    absl::StatusOr<Reservation> bytes =
        store.Reserve(static_cast<int64_t>(proto.f32().size()));
    if (!bytes.ok()) return QuotaExceeded(bytes.status(), "max_vector_bytes");
    StoredRows rows;
    rows.vector = *std::move(values);
    rows.bytes = *std::move(bytes);
    expires = store.Put(sha256, std::move(rows), time_to_live);
  }
  v1::PutVectorResponse response;
  response.set_sha256(sha256);
  response.set_expires_in(SecondsUntil(*expires, context));
  response.set_bytes_used(static_cast<uint64_t>(store.bytes_used()));
  response.set_bytes_limit(static_cast<uint64_t>(store.options().max_bytes));
  return response;
}

absl::StatusOr<v1::GetVectorResponse> HandleGetVector(
    const v1::GetVectorRequest& proto, const ServingContext& context) {
  const StoredEntry entry = context.vectors->Find(proto.sha256());
  if (entry.rows == nullptr) return NotStored(proto.sha256());
  v1::GetVectorResponse response;
  response.set_sha256(proto.sha256());
  response.set_expires_in(SecondsUntil(entry.expires, context));
  const int64_t count = entry.rows->value_count();
  response.set_value_count(static_cast<uint64_t>(count));
  for (const RowBlock& block : entry.rows->blocks) {
    *response.add_blocks() = ToProto(block);
  }
  if (proto.without_values()) return response;
  const absl::Status fits =
      CheckReplySize(static_cast<int64_t>(response.ByteSizeLong()) +
                         count * static_cast<int64_t>(sizeof(float)),
                     "ask for it without_values, or keep fewer rows");
  if (!fits.ok()) return fits;
  std::string& bytes = *response.mutable_f32();
  AppendValues(entry.rows->vector, bytes);
  for (const RowBlock& block : entry.rows->blocks) {
    AppendValues(block.values, bytes);
  }
  return response;
}

absl::StatusOr<v1::DeleteVectorResponse> HandleDeleteVector(
    const v1::DeleteVectorRequest& proto, const ServingContext& context) {
  if (!context.vectors->Delete(proto.sha256()))
    return NotStored(proto.sha256());
  return v1::DeleteVectorResponse();
}

}  // namespace headrace
