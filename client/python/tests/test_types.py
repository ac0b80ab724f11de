"""The types of the package, as its users' checkers see them."""
import pathlib
import subprocess
import sys

import pytest

import headrace

FOLDER = pathlib.Path(__file__).resolve().parents[1]


def mypy(*arguments, cwd=FOLDER):
    pytest.importorskip("mypy")
    done = subprocess.run([sys.executable, "-m", "mypy", "--no-color-output", *arguments], cwd=cwd, text=True,
                          capture_output=True)
    return done.returncode, done.stdout + done.stderr


@pytest.fixture(scope="module")
def cache_dir(tmp_path_factory):
    return tmp_path_factory.mktemp("mypy")


def test_the_package_is_strictly_typed(cache_dir):
    installed = pathlib.Path(headrace.__file__).parent
    status, said = mypy("--strict", "--config-file", "pyproject.toml", "--cache-dir", str(cache_dir), str(installed),
                        *map(str, FOLDER.glob("examples/*.py")))
    assert status == 0, said


def test_users_see_the_types(cache_dir, tmp_path):
    (tmp_path / "use.py").write_text("""
import headrace

client = headrace.Client("localhost:1")
reveal_type(client.generate_text("a"))
reveal_type(client.run_with_cache("a")[1]["blocks.0.hook_resid_post"])
reveal_type(client.get_model().hidden_size)
for event in client.generate("a"):
    if isinstance(event, headrace.Token):
        reveal_type(event.piece)
async def use(aio: headrace.aio.Client) -> None:
    reveal_type(await aio.tokenize("a"))
for batch in headrace.Harvest(client, ["a"]):
    reveal_type(batch.tokens)
client.tokenize(5)
client.get_model().hiden_size
headrace.rows(prompts="all")
""", encoding="utf-8")
    config = FOLDER / "pyproject.toml"
    _, said = mypy("--strict", "--config-file", str(config), "--cache-dir", str(cache_dir), "use.py", cwd=tmp_path)
    revealed = [line.split('"')[1] for line in said.splitlines() if "Revealed type" in line]
    assert revealed[0] == "builtins.str" and revealed[1].startswith("numpy.ndarray")
    assert revealed[2:5] == ["builtins.int", "builtins.bytes", "builtins.list[builtins.int]"]
    assert "int64" in revealed[5] or "signedinteger" in revealed[5]
    errors = [line for line in said.splitlines() if ": error:" in line]
    assert len(errors) == 3, said
    assert "arg-type" in errors[0] and "hiden_size" in errors[1] and "prompts" in errors[2]
