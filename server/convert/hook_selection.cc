#include "server/convert/hook_selection.h"

#include <algorithm>
#include <map>
#include <set>

#include "absl/strings/str_cat.h"
#include "server/convert/enums.h"

namespace headrace {

namespace {

// Selectors, and ranges of one. Far more than hooks and layers need; a message
// has room for a million, and each is looked up and merged.
constexpr int kMaxSelectors = 1024;

constexpr uint32_t kMaxTopKeys = 1024;

bool CheckCount(int count, const std::string& field, Violations& violations) {
  if (count <= kMaxSelectors) return true;
  violations.Add(
      field, absl::StrCat("must be at most ", kMaxSelectors, "; are ", count));
  return false;
}

int32_t LayerCount(const ServingContext& context) {
  return static_cast<int32_t>(context.engine->model().config.num_hidden_layers);
}

bool NamesLayers(const v1::HookSelector& selector) {
  return !selector.layers().empty() || !selector.ranges().empty();
}

void AddRange(const v1::LayerRange& range, const std::string& field,
              const ServingContext& context, std::set<int32_t>& layers,
              Violations& violations) {
  const int32_t count = LayerCount(context);
  const int32_t begin =
      range.begin() < 0 ? range.begin() + count : range.begin();
  const bool to_the_end = range.begin() < 0 && range.end() == 0;
  const int32_t end =
      range.end() < 0 || to_the_end ? range.end() + count : range.end();
  if (begin < 0 || begin >= end || end > count) {
    violations.Add(field, absl::StrCat("must select layers 0 to ", count - 1,
                                       ", begin before end; is [",
                                       range.begin(), ", ", range.end(), ")"));
    return;
  }
  for (int32_t layer = begin; layer < end; ++layer) layers.insert(layer);
}

std::set<int32_t> ResolveLayers(const v1::HookSelector& selector,
                                const std::string& field, bool per_layer,
                                const ServingContext& context,
                                Violations& violations) {
  std::set<int32_t> layers;
  if (!per_layer) {
    if (NamesLayers(selector)) {
      violations.Add(field + ".layers", "cannot be set: the hook has no layer");
    }
    return {-1};
  }
  if (selector.all() || !NamesLayers(selector)) {
    for (int32_t layer = 0; layer < LayerCount(context); ++layer) {
      layers.insert(layer);
    }
  }
  for (int i = 0; i < selector.layers_size(); ++i) {
    const auto layer = CheckLayer(
        selector.layers(i), Indexed(field + ".layers", i), context, violations);
    if (layer.has_value()) layers.insert(*layer);
  }
  if (!CheckCount(selector.ranges_size(), field + ".ranges", violations)) {
    return layers;
  }
  for (int i = 0; i < selector.ranges_size(); ++i) {
    AddRange(selector.ranges(i), Indexed(field + ".ranges", i), context, layers,
             violations);
  }
  return layers;
}

// Heads that have a row each; 0 for hooks without.
int64_t HeadsOf(HookPoint hook, const ServingContext& context) {
  for (const HookPointState& state : context.engine->hooks()) {
    if (state.hook == hook) return state.num_heads;
  }
  return 0;
}

void ResolveHeads(const v1::HookSelector& selector, const std::string& field,
                  int64_t num_heads, HookSelection& selection,
                  Violations& violations) {
  if (!CheckCount(selector.heads_size(), field + ".heads", violations)) return;
  std::set<LayerHead> heads;
  for (int i = 0; i < selector.heads_size(); ++i) {
    const uint32_t head = selector.heads(i);
    if (head >= static_cast<uint64_t>(num_heads)) {
      violations.Add(
          Indexed(field + ".heads", i),
          absl::StrCat("must be from 0 to ", num_heads - 1, "; is ", head));
      continue;
    }
    for (const int32_t layer : selection.layers) {
      heads.insert({layer, static_cast<int32_t>(head)});
    }
  }
  if (selector.heads().empty()) {
    violations.Add(field + ".heads",
                   absl::StrCat("must be named, from 0 to ", num_heads - 1,
                                ": each has a row of its own, as wide as there "
                                "are keys"));
  }
  if (selector.top_keys() > kMaxTopKeys) {
    violations.Add(field + ".top_keys",
                   absl::StrCat("must be at most ", kMaxTopKeys, "; is ",
                                selector.top_keys()));
  }
  selection.heads = {heads.begin(), heads.end()};
  selection.top_keys = static_cast<int32_t>(selector.top_keys());
}

template <typename T>
void Unite(const std::vector<T>& more, std::vector<T>& all) {
  std::set<T> united(all.begin(), all.end());
  united.insert(more.begin(), more.end());
  all = {united.begin(), united.end()};
}

// Adds the selection of another selector of the same hook.
void Join(const HookSelection& selection, const std::string& field,
          HookSelection& joined, Violations& violations) {
  Unite(selection.layers, joined.layers);
  Unite(selection.heads, joined.heads);
  if (selection.top_keys != joined.top_keys) {
    violations.Add(field + ".top_keys",
                   absl::StrCat("must be the same in all selectors of a hook, ",
                                joined.top_keys, "; is ", selection.top_keys));
  }
}

}  // namespace

std::optional<HookPoint> CheckHook(v1::HookPoint proto,
                                   const std::string& field,
                                   const ServingContext& context,
                                   Violations& violations) {
  const std::optional<HookPoint> hook = FromProto(proto);
  if (!hook.has_value()) {
    violations.Add(field, absl::StrCat("must name a hook of the model; is ",
                                       static_cast<int>(proto)));
    return std::nullopt;
  }
  for (const HookPointState& state : context.engine->hooks()) {
    if (state.hook != *hook) continue;
    if (state.capturable) return hook;
    violations.Add(field, absl::StrCat(v1::HookPoint_Name(proto),
                                       " cannot be captured: ", state.refusal));
    return std::nullopt;
  }
  violations.Add(field,
                 v1::HookPoint_Name(proto) + " does not exist in this model");
  return std::nullopt;
}

std::optional<HookPoint> CheckPlainHook(v1::HookPoint proto,
                                        const std::string& field,
                                        const ServingContext& context,
                                        Violations& violations) {
  const std::optional<HookPoint> hook =
      CheckHook(proto, field, context, violations);
  if (!hook.has_value() || HeadsOf(*hook, context) == 0) return hook;
  violations.Add(field, v1::HookPoint_Name(proto) +
                            " can only be captured: its rows are by head and "
                            "key");
  return std::nullopt;
}

int64_t WidthOf(HookPoint hook, const ServingContext& context) {
  for (const HookPointState& state : context.engine->hooks()) {
    if (state.hook == hook) return state.width;
  }
  return 0;
}

std::optional<int32_t> CheckLayer(int32_t layer, const std::string& field,
                                  const ServingContext& context,
                                  Violations& violations) {
  const int32_t count = LayerCount(context);
  if (layer >= -count && layer < count) {
    return layer < 0 ? layer + count : layer;
  }
  violations.Add(field, absl::StrCat("must be from ", -count, " to ", count - 1,
                                     "; is ", layer));
  return std::nullopt;
}

std::optional<HookSelection> ResolveHook(const v1::HookSelector& selector,
                                         const std::string& field,
                                         const ServingContext& context,
                                         Violations& violations) {
  const std::optional<HookPoint> hook =
      CheckHook(selector.hook(), field + ".hook", context, violations);
  if (!hook.has_value()) return std::nullopt;
  const std::set<int32_t> layers = ResolveLayers(
      selector, field, GetHookPointInfo(*hook).per_layer, context, violations);
  HookSelection selection{.hook = *hook,
                          .layers = {layers.begin(), layers.end()}};
  const int64_t num_heads = HeadsOf(*hook, context);
  if (num_heads > 0) {
    ResolveHeads(selector, field, num_heads, selection, violations);
    return selection;
  }
  if (!selector.heads().empty()) {
    violations.Add(field + ".heads",
                   "cannot be set: the hook is taken with all its heads");
  }
  if (selector.top_keys() > 0) {
    violations.Add(field + ".top_keys", "cannot be set: the hook has no keys");
  }
  return selection;
}

std::optional<HookSelection> ResolvePlainHook(const v1::HookSelector& selector,
                                              const std::string& field,
                                              const ServingContext& context,
                                              Violations& violations) {
  if (!CheckPlainHook(selector.hook(), field + ".hook", context, violations)
           .has_value()) {
    return std::nullopt;
  }
  return ResolveHook(selector, field, context, violations);
}

std::vector<HookSelection> ResolveHooks(
    const google::protobuf::RepeatedPtrField<v1::HookSelector>& selectors,
    const std::string& field, const ServingContext& context,
    Violations& violations) {
  std::map<HookPoint, HookSelection> selected;
  if (!CheckCount(selectors.size(), field, violations)) return {};
  for (int i = 0; i < selectors.size(); ++i) {
    const std::string selector_field = Indexed(field, i);
    const std::optional<HookSelection> selection =
        ResolveHook(selectors[i], selector_field, context, violations);
    if (!selection.has_value()) continue;
    const auto [joined, inserted] =
        selected.try_emplace(selection->hook, *selection);
    if (!inserted) {
      Join(*selection, selector_field, joined->second, violations);
    }
  }
  std::vector<HookSelection> hooks;
  for (auto& [hook, selection] : selected) {
    hooks.push_back(std::move(selection));
  }
  return hooks;
}

}  // namespace headrace
