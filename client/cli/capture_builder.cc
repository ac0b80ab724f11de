#include "client/cli/capture_builder.h"

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

namespace headrace::cli {
namespace {

// "a:b" or "n": a half-open range, or a single number (end == begin).
struct Range {
  int64_t begin = 0;
  int64_t end = 0;
  bool single = true;
};

absl::StatusOr<std::vector<Range>> ParseRanges(const std::string& flag,
                                               const std::string& text) {
  std::vector<Range> ranges;
  for (const absl::string_view part :
       absl::StrSplit(text, ',', absl::SkipWhitespace())) {
    const std::vector<absl::string_view> ends = absl::StrSplit(part, ':');
    Range range;
    range.single = ends.size() == 1;
    const bool good = ends.size() <= 2 &&
                      absl::SimpleAtoi(ends[0], &range.begin) &&
                      (range.single || absl::SimpleAtoi(ends[1], &range.end));
    if (!good) {
      return absl::InvalidArgumentError(absl::StrCat(
          flag, ": '", part, "' is neither a number nor a range such as 4:8"));
    }
    ranges.push_back(range);
  }
  return ranges;
}

absl::Status SetLayers(const std::string& text, v1::HookSelector& selector) {
  if (text.empty() || text == "all") {
    selector.set_all(true);
    return absl::OkStatus();
  }
  const auto ranges = ParseRanges("--layers", text);
  if (!ranges.ok()) return ranges.status();
  for (const Range& range : *ranges) {
    if (range.single) {
      selector.add_layers(static_cast<int32_t>(range.begin));
    } else {
      v1::LayerRange& out = *selector.add_ranges();
      out.set_begin(static_cast<int32_t>(range.begin));
      out.set_end(static_cast<int32_t>(range.end));
    }
  }
  return absl::OkStatus();
}

// Of a hook with rows by head; all of them unless told otherwise.
absl::Status SetHeads(const CaptureOptions& options, uint32_t head_count,
                      v1::HookSelector& selector) {
  const bool all = options.heads.empty() || options.heads == "all";
  const absl::StatusOr<std::vector<Range>> ranges = ParseRanges(
      "--heads", all ? absl::StrCat("0:", head_count) : options.heads);
  if (!ranges.ok()) return ranges.status();
  for (const Range& range : *ranges) {
    const int64_t end = range.single ? range.begin + 1 : range.end;
    if (range.begin < 0 || range.begin >= end || end > head_count) {
      return absl::InvalidArgumentError(
          absl::StrCat("--heads must be from 0 to ", head_count - 1, "; is ",
                       options.heads));
    }
    for (int64_t head = range.begin; head < end; ++head) {
      selector.add_heads(static_cast<uint32_t>(head));
    }
  }
  selector.set_top_keys(options.top_keys);
  return absl::OkStatus();
}

absl::Status SetRows(const std::string& text, v1::RowSelector& rows) {
  if (text == "all" || text == "prompt" || text.empty()) {
    rows.mutable_prompt()->set_all(true);
  }
  if (text == "all" || text == "generated") {
    rows.mutable_generated()->set_all(true);
  }
  if (text == "last") rows.mutable_prompt()->set_last(true);
  if (text.empty() || text == "all" || text == "prompt" ||
      text == "generated" || text == "last") {
    return absl::OkStatus();
  }
  const auto ranges = ParseRanges("--rows", text);
  if (!ranges.ok()) return ranges.status();
  for (v1::PhaseRows* phase :
       {rows.mutable_prompt(), rows.mutable_generated()}) {
    for (const Range& range : *ranges) {
      if (range.single) {
        phase->add_positions(range.begin);
      } else {
        v1::PositionWindow& window = *phase->add_windows();
        window.set_begin(range.begin);
        window.set_end(range.end);
      }
    }
  }
  return absl::OkStatus();
}

absl::Status SetDtype(const std::string& name, v1::CaptureSpec& capture) {
  const struct {
    const char* name;
    v1::WireDtype dtype;
  } dtypes[] = {{"f32", v1::WIRE_DTYPE_F32},
                {"bf16", v1::WIRE_DTYPE_BF16},
                {"f16", v1::WIRE_DTYPE_F16},
                {"int8", v1::WIRE_DTYPE_INT8}};
  for (const auto& entry : dtypes) {
    if (name == entry.name) {
      capture.set_dtype(entry.dtype);
      return absl::OkStatus();
    }
  }
  return absl::InvalidArgumentError(
      absl::StrCat("--dtype is ", name, "; it takes f32, bf16, f16 or int8"));
}

}  // namespace

absl::Status SetCapture(const CaptureOptions& options,
                        const v1::ListHookPointsResponse& hooks,
                        v1::CaptureSpec& capture) {
  const std::vector<std::string> names =
      absl::StrSplit(options.hooks, ',', absl::SkipWhitespace());
  for (const std::string& name : names) {
    const auto found =
        std::find_if(hooks.hooks().begin(), hooks.hooks().end(),
                     [&](const auto& hook) { return hook.name() == name; });
    if (found == hooks.hooks().end()) {
      return absl::InvalidArgumentError(absl::StrCat(
          "--hooks: there is no hook '", name,
          "'; `headrace hooks` lists those of the server's model"));
    }
    v1::HookSelector& selector = *capture.add_hooks();
    selector.set_hook(found->hook());
    if (found->head_count() > 0) {
      if (absl::Status status =
              SetHeads(options, found->head_count(), selector);
          !status.ok()) {
        return status;
      }
    }
    if (found->layer_count() == 0) continue;
    if (absl::Status status = SetLayers(options.layers, selector);
        !status.ok()) {
      return status;
    }
  }
  if (capture.hooks().empty()) {
    return absl::InvalidArgumentError("--hooks names no hook");
  }
  if (absl::Status status = SetRows(options.rows, *capture.mutable_rows());
      !status.ok()) {
    return status;
  }
  if (options.compress) capture.set_compression(v1::COMPRESSION_ZSTD);
  return SetDtype(options.dtype, capture);
}

}  // namespace headrace::cli
