// The C++ client of measure_capture.py: makes one measurement and prints it as
// one JSON object.
//
//   capture_benchmark --mode run --address A --prompt 512 --hooks resid_post
//   capture_benchmark --mode slow --address A …   many slow readers
//   capture_benchmark --mode serve_bytes          a bare gRPC stream of bytes
//   capture_benchmark --mode read_bytes --address A --megabytes 512
//   capture_benchmark --mode write_model --folder F
#include <chrono>
#include <cstdint>
#include <cstring>
#include <iostream>
#include <map>
#include <memory>
#include <string>
#include <tuple>
#include <vector>

#include "absl/flags/flag.h"
#include "absl/flags/parse.h"
#include "absl/log/check.h"
#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "client/cpp/chunk_data.h"
#include "client/cpp/client.h"
#include "client/cpp/memory.h"
#include "nlohmann/json.hpp"
#include "tests/benchmarks/capture/byte_stream.h"
#include "tests/benchmarks/capture/slow_readers.h"
#include "tests/testing/gguf_model.h"
#include "tests/testing/tiny_model.h"

ABSL_FLAG(std::string, mode, "run", "what to do");
ABSL_FLAG(std::string, address, "", "of the server");
ABSL_FLAG(std::string, folder, "", "where wide.gguf is written to");
ABSL_FLAG(int64_t, prompt, 512, "tokens of the prompt");
ABSL_FLAG(int64_t, generate, 0, "tokens to generate");
ABSL_FLAG(int64_t, seed, 1, "of the prompt's ids");
ABSL_FLAG(int64_t, vocabulary, 250, "ids are below it");
ABSL_FLAG(std::vector<std::string>, hooks, {}, "to capture; none: no capture");
ABSL_FLAG(int64_t, layer, -1, "the only one; -1: all");
ABSL_FLAG(bool, keep, false, "keep the rows, in arrays");
ABSL_FLAG(int64_t, chunk_bytes, 256 << 10, "of rows or of bytes");
ABSL_FLAG(int64_t, megabytes, 1024, "of bare bytes to read");
ABSL_FLAG(int64_t, readers, 200, "that are slow");
ABSL_FLAG(absl::Duration, duration, absl::Minutes(1), "of reading slowly");

namespace headrace {
namespace {

using nlohmann::ordered_json;

v1::GenerateRequest MakeRequest(int64_t seed = absl::GetFlag(FLAGS_seed)) {
  v1::GenerateRequest request;
  // Ids that no other run has: nothing of them is in the prefix cache.
  auto state = static_cast<uint64_t>(seed);
  for (int64_t i = 0; i < absl::GetFlag(FLAGS_prompt); ++i) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    request.mutable_tokens()->add_ids(static_cast<uint32_t>(
        4 + (state >> 33) %
                static_cast<uint64_t>(absl::GetFlag(FLAGS_vocabulary) - 4)));
  }
  request.mutable_sampling()->set_temperature(0);
  request.mutable_stop()->set_ignore_eos(true);
  request.mutable_stop()->set_max_tokens(
      static_cast<uint32_t>(absl::GetFlag(FLAGS_generate)));
  request.mutable_cache()->set_use_prefix(false);
  for (const std::string& hook : absl::GetFlag(FLAGS_hooks)) {
    v1::HookSelector& selector = *request.mutable_capture()->add_hooks();
    v1::HookPoint point = v1::HOOK_POINT_UNSPECIFIED;
    CHECK(v1::HookPoint_Parse(
        absl::StrCat("HOOK_POINT_", absl::AsciiStrToUpper(hook)), &point))
        << hook;
    selector.set_hook(point);
    if (absl::GetFlag(FLAGS_layer) >= 0) {
      selector.add_layers(static_cast<int32_t>(absl::GetFlag(FLAGS_layer)));
    }
  }
  if (request.has_capture()) {
    v1::RowSelector& rows = *request.mutable_capture()->mutable_rows();
    rows.mutable_prompt()->set_all(true);
    if (absl::GetFlag(FLAGS_generate) > 0) {
      rows.mutable_generated()->set_all(true);
    }
    request.mutable_capture()->set_chunk_bytes(
        static_cast<uint32_t>(absl::GetFlag(FLAGS_chunk_bytes)));
  }
  return request;
}

std::unique_ptr<client::Client> Connect() {
  auto client =
      client::Client::Create({.address = absl::GetFlag(FLAGS_address)});
  CHECK_OK(client.status());
  CHECK_OK((*client)->Health().status());  // connects
  return *std::move(client);
}

// Reads rows as a client does; with --keep into an array for each hook and
// layer.
class Reader {
 public:
  void Add(const v1::ActivationChunk& chunk) {
    const auto data = client::ChunkData(chunk, scratch_);
    CHECK_OK(data.status());
    bytes_ += static_cast<int64_t>(data->size());
    if (!absl::GetFlag(FLAGS_keep)) return;
    auto& [array, filled] = arrays_[{chunk.hook(), chunk.layer()}];
    if (array == nullptr) {
      array = std::make_unique_for_overwrite<char[]>(
          static_cast<size_t>(absl::GetFlag(FLAGS_prompt) +
                              absl::GetFlag(FLAGS_generate)) *
          chunk.width() * sizeof(float));
    }
    std::memcpy(array.get() + filled, data->data(), data->size());
    filled += data->size();
  }
  int64_t bytes() const { return bytes_; }

 private:
  std::string scratch_;
  std::map<std::pair<int, uint32_t>, std::pair<std::unique_ptr<char[]>, size_t>>
      arrays_;
  int64_t bytes_ = 0;
};

ordered_json RunOnce(client::Client& client,
                     const v1::GenerateRequest& request) {
  Reader reader;
  absl::Time first_token, last_token;
  v1::End end;

  const absl::Time start = absl::Now();
  const std::unique_ptr<client::GenerateStream> stream =
      client.Generate(request);
  while (auto event = stream->Next()) {
    if (event->has_activations()) reader.Add(event->activations());
    if (event->has_end()) end = event->end();
    if (!event->has_token()) continue;
    last_token = absl::Now();
    if (event->token().index() == 0) first_token = last_token;
  }
  const double seconds = absl::ToDoubleSeconds(absl::Now() - start);
  CHECK_OK(stream->Finish());
  const auto tokens = static_cast<double>(absl::GetFlag(FLAGS_generate) - 1);
  return {{"seconds", seconds},
          {"bytes", reader.bytes()},
          {"decode_tokens_per_second",
           tokens > 0 ? tokens / absl::ToDoubleSeconds(last_token - first_token)
                      : 0},
          {"server_prefill_seconds", end.timings().prefill()},
          {"server_stalled_seconds", end.timings().stalled()}};
}

// The second of two: a program that has just begun has neither memory nor the
// windows of its connection.
ordered_json Run() {
  const auto client = Connect();
  RunOnce(*client, MakeRequest(-absl::GetFlag(FLAGS_seed)));
  return RunOnce(*client, MakeRequest());
}

// One layer of wide rows that cost next to nothing to compute.
ordered_json WriteModel() {
  const std::string path = absl::GetFlag(FLAGS_folder) + "/wide.gguf";
  WriteGgufModel(BuildTinyModel({.hidden_size = 2048,
                                 .intermediate_size = 32,
                                 .num_hidden_layers = 1,
                                 .num_attention_heads = 1,
                                 .num_key_value_heads = 1,
                                 .head_dim = 32,
                                 .max_position_embeddings = 8192}),
                 path);
  return {{"path", path}};
}

ordered_json Measure() {
  const std::string mode = absl::GetFlag(FLAGS_mode);
  if (mode == "run") return Run();
  if (mode == "write_model") return WriteModel();
  if (mode == "slow") {
    return {{"bytes", ReadSlowly(absl::GetFlag(FLAGS_address), MakeRequest(),
                                 {.count = absl::GetFlag(FLAGS_readers),
                                  .duration = absl::GetFlag(FLAGS_duration)})}};
  }
  CHECK_EQ(mode, "read_bytes");
  const int64_t messages =
      (absl::GetFlag(FLAGS_megabytes) << 20) / absl::GetFlag(FLAGS_chunk_bytes);
  return {{"seconds", ReadBytes(absl::GetFlag(FLAGS_address), messages,
                                absl::GetFlag(FLAGS_chunk_bytes))},
          {"bytes", messages * absl::GetFlag(FLAGS_chunk_bytes)}};
}

}  // namespace
}  // namespace headrace

int main(int argc, char** argv) {
  absl::ParseCommandLine(argc, argv);
  headrace::client::KeepFreedMemory();
  if (absl::GetFlag(FLAGS_mode) == "serve_bytes") {
    headrace::ServeBytes();
  } else {
    std::cout << headrace::Measure().dump() << std::endl;
  }
  return 0;
}
