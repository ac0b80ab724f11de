// What the residual stream predicts at each layer: gathered from a server, for
// the terminal, for JSON and for a page.
#ifndef HEADRACE_CLIENT_CLI_LENS_REPORT_H_
#define HEADRACE_CLIENT_CLI_LENS_REPORT_H_

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "client/cpp/client.h"
#include "headrace/v1/generation.pb.h"

namespace headrace::cli {

struct LensPrediction {
  uint32_t id = 0;
  std::string piece;  // its bytes
  float logprob = 0;
};

struct LensToken {
  uint32_t id = 0;
  std::string piece;
};

// One part of a logit.
struct LogitPart {
  std::string name;  // "embed", "attn 3", "mlp 3", "residue"
  double value = 0;
};

struct LensReport {
  v1::Header header;
  std::vector<LensToken> tokens;  // the rows' own, by position
  int64_t num_layers = 0;
  using Cell = std::pair<int64_t, int64_t>;                 // layer, position
  std::map<Cell, std::vector<LensPrediction>> predictions;  // likeliest first
  std::map<Cell, float> norms;                              // of RESID_POST
  std::map<Cell, float> cosines;  // with the layer before

  // Of the likeliest token after the last position.
  LensToken chosen;
  double logit = 0;
  std::vector<LogitPart> parts;
};

// `request` has a prompt; what it generates is looked at too.
absl::StatusOr<LensReport> GatherLens(client::Client& client,
                                      v1::GenerateRequest request,
                                      uint32_t top_k);

// The same for machines, and for the page.
std::string ToJson(const LensReport& report);

}  // namespace headrace::cli

#endif  // HEADRACE_CLIENT_CLI_LENS_REPORT_H_
