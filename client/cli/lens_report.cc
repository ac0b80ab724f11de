#include "client/cli/lens_report.h"

#include <cmath>
#include <cstring>
#include <optional>

#include "absl/strings/str_cat.h"
#include "client/cli/interrupt.h"
#include "client/cli/token_pieces.h"
#include "nlohmann/json.hpp"

namespace headrace::cli {
namespace {

// Indices into CaptureSpec.derived.
constexpr uint32_t kLens = 0;
constexpr uint32_t kNorm = 1;
constexpr uint32_t kCosine = 2;

absl::StatusOr<std::vector<float>> ValuesOf(const v1::Derived& chunk) {
  const size_t count = static_cast<size_t>(chunk.row_count()) * chunk.width();
  if (chunk.values().size() != count * sizeof(float)) {
    return absl::DataLossError(
        absl::StrCat("derived values have ", chunk.values().size(), " bytes; ",
                     count * sizeof(float), " were announced"));
  }
  std::vector<float> values(count);
  std::memcpy(values.data(), chunk.values().data(), chunk.values().size());
  return values;
}

void AddPredictions(const v1::Derived& chunk, const std::vector<float>& values,
                    LensReport& report) {
  const auto width = static_cast<int>(chunk.width());
  for (int row = 0; row < chunk.positions_size(); ++row) {
    std::vector<LensPrediction>& cell =
        report.predictions[{chunk.layer(), chunk.positions(row)}];
    for (int k = 0; k < width; ++k) {
      const int i = row * width + k;
      cell.push_back({.id = chunk.ids(i),
                      .piece = i < chunk.pieces_size() ? chunk.pieces(i) : "",
                      .logprob = values[static_cast<size_t>(i)]});
    }
  }
}

absl::Status AddChunk(const v1::Derived& chunk, LensReport& report) {
  const absl::StatusOr<std::vector<float>> values = ValuesOf(chunk);
  if (!values.ok()) return values.status();
  if (chunk.spec() == kLens) {
    AddPredictions(chunk, *values, report);
    return absl::OkStatus();
  }
  std::map<LensReport::Cell, float>& cells =
      chunk.spec() == kNorm ? report.norms : report.cosines;
  for (int row = 0; row < chunk.positions_size(); ++row) {
    cells[{chunk.layer(), chunk.positions(row)}] =
        (*values)[static_cast<size_t>(row)];
  }
  return absl::OkStatus();
}

// Runs the request; tokens and derived rows come into the report.
absl::Status Collect(client::Client& client, const v1::GenerateRequest& request,
                     LensReport& report) {
  const auto stream = client.Generate(request);
  const InterruptScope interrupt([&] { stream->Cancel(); });
  while (std::optional<v1::GenerateResponse> event = stream->Next()) {
    if (event->has_header()) {
      report.header = event->header();
      for (const uint32_t id : report.header.prompt_token_ids()) {
        report.tokens.push_back({.id = id, .piece = ""});
      }
    } else if (event->has_token()) {
      report.tokens.push_back(
          {.id = event->token().id(), .piece = event->token().piece()});
    } else if (event->has_derived()) {
      if (absl::Status status = AddChunk(event->derived(), report);
          !status.ok()) {
        return status;
      }
    }
  }
  return stream->Finish();
}

absl::Status FillPieces(client::Client& client, LensReport& report) {
  for (LensToken& token : report.tokens) {
    if (!token.piece.empty()) continue;
    absl::StatusOr<std::string> piece =
        PieceOfToken(client, report.header.model(), token.id);
    if (!piece.ok()) return piece.status();
    token.piece = *std::move(piece);
  }
  return absl::OkStatus();
}

std::string NameOfPart(int64_t index, int64_t num_layers) {
  if (index == 0) return "embed";
  if (index == 1 + 2 * num_layers) return "residue";
  return absl::StrCat(index % 2 == 1 ? "attn " : "mlp ", (index - 1) / 2);
}

// What made the chosen token's logit: one more pass, over the same tokens.
absl::Status Attribute(client::Client& client, LensReport& report) {
  v1::ForwardRequest request;
  request.set_model(report.header.model());
  for (const LensToken& token : report.tokens) {
    request.mutable_tokens()->add_ids(token.id);
  }
  request.mutable_capture()->mutable_rows()->mutable_prompt()->set_last(true);
  request.mutable_capture()
      ->add_derived()
      ->mutable_direct_logit_attribution()
      ->add_token_ids(report.chosen.id);
  const auto stream = client.Forward(request);
  while (std::optional<v1::ForwardResponse> event = stream->Next()) {
    if (!event->has_derived()) continue;
    const auto values = ValuesOf(event->derived());
    if (!values.ok()) return values.status();
    for (size_t i = 0; i + 1 < values->size(); ++i) {
      report.parts.push_back(
          {.name = NameOfPart(static_cast<int64_t>(i), report.num_layers),
           .value = (*values)[i]});
    }
    report.logit = values->back();
  }
  return stream->Finish();
}

void AddDerived(v1::CaptureSpec& capture, uint32_t top_k) {
  capture.mutable_rows()->mutable_prompt()->set_all(true);
  capture.mutable_rows()->mutable_generated()->set_all(true);
  capture.add_derived()->mutable_logit_lens()->set_top_k(top_k);
  capture.add_derived()->mutable_norm()->mutable_where()->set_hook(
      v1::HOOK_POINT_RESID_POST);
  capture.add_derived()->mutable_cosine()->mutable_where()->set_hook(
      v1::HOOK_POINT_RESID_POST);
}

}  // namespace

absl::StatusOr<LensReport> GatherLens(client::Client& client,
                                      v1::GenerateRequest request,
                                      uint32_t top_k) {
  LensReport report;
  const absl::StatusOr<v1::Model> model = client.GetModel(request.model());
  if (!model.ok()) return model.status();
  report.num_layers = static_cast<int64_t>(model->num_hidden_layers());
  for (const uint32_t id : request.tokens().ids()) {
    report.tokens.push_back({.id = id, .piece = ""});
  }
  AddDerived(*request.mutable_capture(), top_k);
  if (absl::Status status = Collect(client, request, report); !status.ok()) {
    return status;
  }
  // The token sampled last has no row: it was never fed back.
  const size_t rows =
      report.norms.size() /
      static_cast<size_t>(std::max<int64_t>(1, report.num_layers));
  if (rows < report.tokens.size()) report.tokens.resize(rows);
  if (absl::Status status = FillPieces(client, report); !status.ok()) {
    return status;
  }
  const auto last = report.predictions.find(
      {report.num_layers - 1, static_cast<int64_t>(rows) - 1});
  if (last == report.predictions.end() || last->second.empty()) return report;
  report.chosen = {.id = last->second.front().id,
                   .piece = last->second.front().piece};
  if (absl::Status status = Attribute(client, report); !status.ok()) {
    return status;
  }
  return report;
}

std::string ToJson(const LensReport& report) {
  using Json = nlohmann::ordered_json;
  const auto positions = static_cast<int64_t>(report.tokens.size());
  Json tokens = Json::array();
  for (const LensToken& token : report.tokens) {
    tokens.push_back({{"id", token.id}, {"text", ReadableText(token.piece)}});
  }
  Json lens = Json::array();
  Json norms = Json::array();
  Json cosines = Json::array();
  for (int64_t layer = 0; layer < report.num_layers; ++layer) {
    Json cells = Json::array();
    Json layer_norms = Json::array();
    Json layer_cosines = Json::array();
    for (int64_t p = 0; p < positions; ++p) {
      Json cell = Json::array();
      for (const LensPrediction& prediction :
           report.predictions.at({layer, p})) {
        cell.push_back({{"id", prediction.id},
                        {"text", ReadableText(prediction.piece)},
                        {"logprob", prediction.logprob}});
      }
      cells.push_back(std::move(cell));
      layer_norms.push_back(report.norms.at({layer, p}));
      if (layer > 0) layer_cosines.push_back(report.cosines.at({layer, p}));
    }
    lens.push_back(std::move(cells));
    norms.push_back(std::move(layer_norms));
    if (layer > 0) cosines.push_back(std::move(layer_cosines));
  }
  Json parts = Json::array();
  for (const LogitPart& part : report.parts) {
    parts.push_back({{"name", part.name}, {"value", part.value}});
  }
  const Json out = {{"model", report.header.model()},
                    {"build", report.header.build()},
                    {"tokens", tokens},
                    {"lens", lens},
                    {"norms", norms},
                    {"cosines", cosines},
                    {"attribution",
                     {{"id", report.chosen.id},
                      {"text", ReadableText(report.chosen.piece)},
                      {"logit", report.logit},
                      {"parts", parts}}}};
  return out.dump(-1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace headrace::cli
