// Gathers what is wrong with a request, so that one reply names every bad
// field.
#ifndef HEADRACE_SERVER_CONVERT_VIOLATIONS_H_
#define HEADRACE_SERVER_CONVERT_VIOLATIONS_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "engine/base/field_violation.h"

namespace headrace {

// Thread-compatible. Fields are paths from the request's root
// ("stop.stop_strings[0]"); a description continues the field's name and holds
// the limit and the value ("must be in (0, 1]; is 1.5").
class Violations {
 public:
  void Add(std::string field, std::string description);
  // Adds `found` with "prefix." before each field.
  void AddAll(std::string_view prefix,
              const std::vector<FieldViolation>& found);
  // Adds one, of "field[index]", unless id < vocab_size; true when it is valid.
  bool CheckTokenId(std::string_view field, int64_t index, uint32_t id,
                    int64_t vocab_size);

  // Adds one, of a field that names something which is not on the server.
  void AddNotFound(std::string field, std::string_view type,
                   std::string_view name, std::string description);

  bool empty() const { return count_ == 0; }
  size_t count() const { return count_; }
  // The first of them: a message of 4 MiB can hold millions, and no reply has
  // room for more.
  const std::vector<FieldViolation>& list() const { return violations_; }

  // OK when empty, else INVALID_ARGUMENT with a google.rpc.BadRequest. The
  // message names the first violations; both end in "and N more" before they
  // outgrow what gRPC lets a status carry. NOT_FOUND with a
  // google.rpc.ResourceInfo when nothing else is wrong than a name.
  absl::Status ToStatus() const;

 private:
  std::vector<FieldViolation> violations_;
  size_t count_ = 0;
  size_t not_found_count_ = 0;
  absl::Status not_found_;  // of the first one
};

// "ids[3]"
std::string Indexed(std::string_view field, int64_t index);

}  // namespace headrace

#endif  // HEADRACE_SERVER_CONVERT_VIOLATIONS_H_
