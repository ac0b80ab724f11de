#include "client/cli/npz_writer.h"

#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

#include "gtest/gtest.h"
#include "tests/testing/files.h"

namespace headrace::cli {
namespace {

template <typename T>
std::string_view Bytes(const std::vector<T>& values) {
  return {reinterpret_cast<const char*>(values.data()),
          values.size() * sizeof(T)};
}

TEST(NpzWriterTest, NumpyReadsWhatIsWritten) {
  TempFolder folder;
  const std::string path = folder.Join("a.npz");
  const std::vector<float> values = {1, 2.5, -3, 4, 5, 6};
  const std::vector<int64_t> ids = {7, int64_t{1} << 40};
  NpzWriter npz(path);
  ASSERT_TRUE(
      npz.Add("blocks.0.hook_resid_post", "<f4", {2, 3}, Bytes(values)).ok());
  ASSERT_TRUE(npz.Add("tokens", "<i8", {2}, Bytes(ids)).ok());
  ASSERT_TRUE(npz.Add("empty", "<f4", {0, 3}, "").ok());
  ASSERT_TRUE(npz.Finish().ok());

  const std::string check =
      "python3 -c \"import numpy as np; f = np.load('" + path +
      "'); a = f['blocks.0.hook_resid_post']; "
      "assert a.dtype == np.float32 and a.tolist() == [[1, 2.5, -3], [4, 5, "
      "6]]; assert f['tokens'].tolist() == [7, 2**40]; "
      "assert f['empty'].shape == (0, 3); assert len(f.files) == 3\"";

  EXPECT_EQ(std::system(check.c_str()), 0);
}

TEST(NpzWriterTest, AFileThatCannotBeWrittenIsNamed) {
  NpzWriter npz("/nowhere/a.npz");

  const absl::Status status = npz.Add("a", "<f4", {0}, "");

  EXPECT_NE(status.message().find("/nowhere/a.npz"), std::string::npos);
}

}  // namespace
}  // namespace headrace::cli
