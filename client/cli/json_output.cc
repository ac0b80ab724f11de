#include "client/cli/json_output.h"

#include <iostream>
#include <string>

#include "google/protobuf/util/json_util.h"

namespace headrace::cli {

absl::Status PrintJsonLine(const google::protobuf::Message& message) {
  google::protobuf::util::JsonPrintOptions print;
  print.preserve_proto_field_names = true;
  print.always_print_primitive_fields = true;
  std::string text;
  const auto status =
      google::protobuf::util::MessageToJsonString(message, &text, print);
  if (!status.ok()) return absl::InternalError(status.ToString());
  std::cout << text << "\n" << std::flush;
  return absl::OkStatus();
}

}  // namespace headrace::cli
