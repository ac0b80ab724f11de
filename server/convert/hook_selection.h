// v1.HookSelector: hooks and layers by name, list, range and negative number,
// resolved against a model.
#ifndef HEADRACE_SERVER_CONVERT_HOOK_SELECTION_H_
#define HEADRACE_SERVER_CONVERT_HOOK_SELECTION_H_

#include <optional>
#include <string>
#include <vector>

#include "engine/engine.h"
#include "google/protobuf/repeated_ptr_field.h"
#include "headrace/v1/activations.pb.h"
#include "server/convert/serving_context.h"
#include "server/convert/violations.h"

namespace headrace {

// The hook, when the model can capture it; else nullopt and a violation of
// `field` with the reason.
std::optional<HookPoint> CheckHook(v1::HookPoint hook, const std::string& field,
                                   const ServingContext& context,
                                   Violations& violations);

// The same, and a violation too when its rows are by head and key: those can
// only be captured.
std::optional<HookPoint> CheckPlainHook(v1::HookPoint hook,
                                        const std::string& field,
                                        const ServingContext& context,
                                        Violations& violations);

// Values of a row of a hook that the model has.
int64_t WidthOf(HookPoint hook, const ServingContext& context);

// `layer` counted from the front; nullopt and a violation when out of range.
std::optional<int32_t> CheckLayer(int32_t layer, const std::string& field,
                                  const ServingContext& context,
                                  Violations& violations);

// Nullopt, and violations, when the hook or its layers are not valid.
std::optional<HookSelection> ResolveHook(const v1::HookSelector& selector,
                                         const std::string& field,
                                         const ServingContext& context,
                                         Violations& violations);

// The same of a plain hook.
std::optional<HookSelection> ResolvePlainHook(const v1::HookSelector& selector,
                                              const std::string& field,
                                              const ServingContext& context,
                                              Violations& violations);

// Ascending by hook, each once; selectors of one hook are joined.
std::vector<HookSelection> ResolveHooks(
    const google::protobuf::RepeatedPtrField<v1::HookSelector>& selectors,
    const std::string& field, const ServingContext& context,
    Violations& violations);

}  // namespace headrace

#endif  // HEADRACE_SERVER_CONVERT_HOOK_SELECTION_H_
