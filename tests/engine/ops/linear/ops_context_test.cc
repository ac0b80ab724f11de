#include "engine/ops/ops_context.h"

#include <cstdlib>
#include <string>

#include "engine/ops/kernels/isa.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace headrace {
namespace {

using ::testing::HasSubstr;

// Sets HEADRACE_ISA and puts back what was there.
class ScopedIsa {
 public:
  explicit ScopedIsa(const std::string& value) {
    const char* before = std::getenv(kName);
    if (before != nullptr) before_ = before;
    was_set_ = before != nullptr;
    setenv(kName, value.c_str(), 1);
  }
  ~ScopedIsa() {
    if (was_set_) {
      setenv(kName, before_.c_str(), 1);
    } else {
      unsetenv(kName);
    }
  }

 private:
  static constexpr const char* kName = "HEADRACE_ISA";
  std::string before_;
  bool was_set_ = false;
};

TEST(OpsContextTest, RunsWhatHeadraceIsaAllows) {
  for (const std::string_view isa : kernels::SupportedIsas()) {
    const ScopedIsa scoped{std::string(isa)};

    const auto context = OpsContext::Create(1);

    ASSERT_TRUE(context.ok()) << context.status();
    EXPECT_EQ((*context)->isa(), isa);
  }
}

TEST(OpsContextTest, EmptyHeadraceIsaIsNoCap) {
  const ScopedIsa scoped("");

  const auto context = OpsContext::Create(1);

  ASSERT_TRUE(context.ok()) << context.status();
  EXPECT_EQ((*context)->isa(), kernels::SupportedIsas().back());
}

TEST(OpsContextTest, RefusesUnknownHeadraceIsaNamingTheChoices) {
  const ScopedIsa scoped("AVX9");

  const auto context = OpsContext::Create(1);

  EXPECT_EQ(context.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(context.status().message()),
              HasSubstr("HEADRACE_ISA: instruction set \"AVX9\" is unknown"));
  EXPECT_THAT(std::string(context.status().message()),
              HasSubstr("AVX2, AVX2_VNNI, AVX3"));
}

TEST(OpsContextTest, RefusesNoThreads) {
  const auto context = OpsContext::Create(0);

  EXPECT_EQ(context.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(context.status().message()),
              HasSubstr("num_threads is 0"));
}

TEST(OpsContextTest, EachThreadHasScratchOfItsOwn) {
  const auto context = OpsContext::Create(3);

  ASSERT_TRUE(context.ok()) << context.status();
  EXPECT_EQ((*context)->team().num_threads(), 3);
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ((*context)->scratch(i).size(), OpsContext::kScratchBytes);
    EXPECT_NE((*context)->scratch(i).data(),
              (*context)->scratch((i + 1) % 3).data());
  }
}

}  // namespace
}  // namespace headrace
