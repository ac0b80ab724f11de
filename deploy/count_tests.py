"""Counts the tests in result folders: prints `passed failed skipped`.

A folder holds ctest.xml (JUnit from ctest), gtest/NAME.xml (from GoogleTest, for
the ctest entries that are such programs) and pytest.xml; each may be missing. A
ctest entry counts as its GoogleTest cases, or as one test if it has none.
"""

import collections
import pathlib
import sys
import xml.etree.ElementTree as ElementTree


def outcome(case):
    if case.find("failure") is not None or case.find("error") is not None:
        return "failed"
    if case.find("skipped") is not None:
        return "skipped"
    return "passed"


def cases(path):
    return list(ElementTree.parse(path).iter("testcase")) if path.is_file() else []


def count_ctest_entry(entry, folder):
    inner = collections.Counter(outcome(case) for case in cases(folder / "gtest" / f"{entry.get('name')}.xml"))
    failed = entry.get("status") == "fail" or outcome(entry) == "failed"
    if failed and not inner["failed"]:
        inner["failed"] += 1  # It crashed, hung or leaked outside any case.
    if not inner:
        inner[outcome(entry)] += 1
    return inner


def count(folder):
    total = collections.Counter()
    for entry in cases(folder / "ctest.xml"):
        total += count_ctest_entry(entry, folder)
    total.update(outcome(case) for case in cases(folder / "pytest.xml"))
    return total


def main():
    total = sum((count(pathlib.Path(folder)) for folder in sys.argv[1:]), collections.Counter())
    print(total["passed"], total["failed"], total["skipped"])


if __name__ == "__main__":
    main()
