"""The examples of the README, as doctests against a running server."""
import doctest
import os
import pathlib

import pytest

README = pathlib.Path(__file__).resolve().parents[1] / "README.md"


def test_the_readme_says_what_happens(client, address):
    if "SmolLM2-135M-Instruct.Q4_1" not in os.environ["HEADRACE_TEST_MODEL"]:
        pytest.skip("the README shows what SmolLM2-135M-Instruct.Q4_1 says")
    text = README.read_text(encoding="utf-8").replace("localhost:50051", address).replace("```", "")
    examples = doctest.DocTestParser().get_doctest(text, {}, "README", str(README), 0)
    assert len(examples.examples) > 25
    said = []
    failed, _ = doctest.DocTestRunner(optionflags=doctest.NORMALIZE_WHITESPACE).run(examples, out=said.append)
    assert not failed, "".join(said)
