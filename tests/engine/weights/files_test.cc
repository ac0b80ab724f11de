// The small things below the formats: mapped files, names, paths.
#include <sys/stat.h>

#include <filesystem>
#include <optional>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "engine/weights/file_error.h"
#include "engine/weights/file_path.h"
#include "engine/weights/mapped_file.h"
#include "engine/weights/shard_name.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/engine/weights/status_matchers.h"
#include "tests/testing/files.h"

namespace headrace {
namespace {

TEST(MappedFileTest, ShowsTheBytesOfTheFile) {
  TempFolder folder;
  WriteFile(folder.Join("a.txt"), "some bytes");

  auto file = MappedFile::Open(folder.Join("a.txt"));

  ASSERT_TRUE(file.ok()) << file.status();
  EXPECT_EQ(file->text(), "some bytes");
  EXPECT_EQ(file->name(), "a.txt");
  const auto* address = file->bytes().data();
  const MappedFile moved = *std::move(file);
  EXPECT_EQ(moved.bytes().data(), address);
  EXPECT_EQ(moved.text(), "some bytes");
}

TEST(MappedFileTest, AcceptsAnEmptyFile) {
  TempFolder folder;
  WriteFile(folder.Join("empty"), "");

  const auto file = MappedFile::Open(folder.Join("empty"));

  ASSERT_TRUE(file.ok()) << file.status();
  EXPECT_TRUE(file->bytes().empty());
}

TEST(MappedFileTest, NamesWhatItCannotOpen) {
  TempFolder folder;
  EXPECT_THAT(MappedFile::Open(folder.Join("none")).status(),
              FailsWith(absl::StatusCode::kNotFound,
                        std::vector<std::string>{folder.Join("none")}));
  EXPECT_THAT(MappedFile::Open(folder.path()).status(),
              FailsWith(absl::StatusCode::kInvalidArgument,
                        std::vector<std::string>{"not a regular file"}));
}

TEST(MappedFileTest, DoesNotWaitForTheWriterOfAPipe) {
  TempFolder folder;
  ASSERT_EQ(mkfifo(folder.Join("pipe").c_str(), 0600), 0);

  EXPECT_THAT(MappedFile::Open(folder.Join("pipe")).status(),
              FailsWith(absl::StatusCode::kInvalidArgument,
                        std::vector<std::string>{"not a regular file"}));
}

TEST(MappedFileTest, NoticesAFileThatGrowsOrShrinks) {
  TempFolder folder;
  WriteFile(folder.Join("a"), "12345678");
  const auto file = MappedFile::Open(folder.Join("a"));
  ASSERT_TRUE(file.ok());
  EXPECT_TRUE(file->CheckUnchanged().ok());

  std::filesystem::resize_file(folder.Join("a"), 4);

  EXPECT_THAT(file->CheckUnchanged(),
              FailsWith(absl::StatusCode::kAborted,
                        std::vector<std::string>{"a changed", "8", "4"}));
}

TEST(FilePathTest, CutsPathsAtTheLastSlash) {
  EXPECT_EQ(BaseName("a/b.c"), "b.c");
  EXPECT_EQ(BaseName("b"), "b");
  EXPECT_EQ(FolderOf("a/b/c"), "a/b");
  EXPECT_EQ(FolderOf("c"), ".");
  EXPECT_EQ(FolderOf("/c"), "/");
  EXPECT_EQ(JoinPath("a", "b"), "a/b");
  EXPECT_EQ(JoinPath("/", "b"), "/b");
}

TEST(ShardNameTest, ReadsNumberAndCountAndNamesSisters) {
  const std::optional<ShardName> shard =
      ParseShardName("my-model-00002-of-00013.gguf", ".gguf");

  ASSERT_TRUE(shard.has_value());
  EXPECT_EQ(shard->prefix, "my-model");
  EXPECT_EQ(shard->number, 2);
  EXPECT_EQ(shard->count, 13);
  EXPECT_EQ(shard->Sister(13), "my-model-00013-of-00013.gguf");
}

TEST(ShardNameTest, TakesNothingElseForAShard) {
  for (const char* name :
       {"model.gguf", "model-00001-of-00002.bin", "model-1-of-2.gguf",
        "model-00000-of-00002.gguf", "model-00003-of-00002.gguf",
        "model00001-of-00002.gguf", "00001-of-00002.gguf",
        "model-00001-of-0000x.gguf", ".gguf", ""}) {
    EXPECT_FALSE(ParseShardName(name, ".gguf").has_value()) << name;
  }
}

TEST(FileErrorTest, MakesNamesSafeToPrint) {
  EXPECT_EQ(Quoted("a.b"), "\"a.b\"");
  EXPECT_EQ(Quoted(std::string("\x01\n\"\0", 4)), R"("\x01\n\"\x00")");
  EXPECT_EQ(Quoted("\xFF"), R"("\xff")");
  EXPECT_EQ(Quoted(std::string(500, 'x')).size(), 100 + 2 + 3u);
}

TEST(FileErrorTest, KnowsUtf8) {
  for (const char* text :
       {"", "abc", "é", "\xEF\xBF\xBF", "\xF4\x8F\xBF\xBF"}) {
    EXPECT_TRUE(IsUtf8(text)) << text;
  }
  for (const char* text : {"\x80", "\xC3", "\xC0\x80", "\xED\xA0\x80",
                           "\xF4\x90\x80\x80", "a\xFFz"}) {
    EXPECT_FALSE(IsUtf8(text)) << text;
  }
  EXPECT_TRUE(IsUtf8(std::string_view("a\0b", 3)));
}

}  // namespace
}  // namespace headrace
