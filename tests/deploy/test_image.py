"""The container image, without a container engine: buildah builds deploy/Dockerfile
on a base made by mmdebstrap, then its entry point runs in a chroot of the image
with a read-only root and no home, as the image's user and as an arbitrary one."""

import json
import os
import pathlib
import resource
import shutil
import signal
import subprocess

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
PRIVATE = ["unshare", "--mount", "--propagation", "private"]
IMAGE_USER = "65532:65532"
ARBITRARY_USER = "1000790000:0"

pytestmark = pytest.mark.slow


def output(*command, **options):
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, **options).stdout


class Builder:
    """buildah with storage of its own below `folder`, and no daemon."""

    def __init__(self, folder):
        self.options = ["--storage-driver", "vfs", "--root", folder / "storage", "--runroot", folder / "run"]

    def __call__(self, *arguments):
        return output("buildah", *self.options, *arguments).strip()

    def build(self, tag, dockerfile, context, **build_args):
        limits = []
        for name, number in (("nofile", resource.RLIMIT_NOFILE), ("nproc", resource.RLIMIT_NPROC)):
            hard = resource.getrlimit(number)[1]
            limits += ["--ulimit", f"{name}={hard}:{hard}"]
        arguments = [f"--build-arg={name}={value}" for name, value in build_args.items()]
        cache = pathlib.Path(os.environ.get("CCACHE_DIR", pathlib.Path.home() / ".cache/ccache"))
        cache.mkdir(parents=True, exist_ok=True)
        self("build", "--isolation", "chroot", "--format", "docker", "--layers=false", "--network", "host",
             "--volume", f"{cache}:/root/.cache/ccache", *limits, *arguments,
             "--tag", tag, "--file", dockerfile, context)


class Image:
    """The finished image: its root directory and its configuration."""

    def __init__(self, builder, tag, models):
        container = builder("from", "--pull-never", tag)
        self.root = builder("mount", container)
        self.config = json.loads(builder("inspect", "--type", "image", tag))["Docker"]["config"]
        self.models = models
        pathlib.Path(self.root, "models").mkdir(exist_ok=True)

    def command(self, user, *command):
        """The command line that runs `command` in the image as `user`."""
        script = """
            root=$1; models=$2; user=$3; shift 3
            mount --bind "$root" "$root" && mount --bind "$models" "$root/models"
            for kernel in proc sys dev; do mount --rbind /$kernel "$root/$kernel"; done
            mount -o remount,bind,ro "$root" && mount -o remount,bind,ro "$root/models"
            exec chroot --userspec="$user" --groups= "$root" /usr/bin/env -i "$@"
        """
        return [*PRIVATE, "sh", "-euc", script, "-", self.root, self.models, user, *self.config["Env"], *command]


@pytest.fixture(scope="module")
def image(install, tmp_path_factory):
    if os.geteuid() != 0 or subprocess.run([*PRIVATE, "true"], check=False).returncode != 0:
        pytest.skip("needs root and mount namespaces")
    model = os.environ.get("HEADRACE_TEST_MODEL")
    if not model:
        pytest.skip("needs the default model (HEADRACE_TEST_MODEL)")
    install("image", "buildah", "mmdebstrap")
    folder = tmp_path_factory.mktemp("image")
    builder = Builder(folder)
    context = folder / "base"
    context.mkdir()
    subprocess.run([*PRIVATE, "mmdebstrap", "--variant=minbase", "trixie", context / "base.tar"], check=True)
    (context / "Dockerfile").write_text("FROM scratch\nADD base.tar /\n", encoding="utf-8")
    builder.build("headrace-base", context / "Dockerfile", context)
    builder.build("headrace", ROOT / "deploy/Dockerfile", ROOT, BASE="localhost/headrace-base")
    yield Image(builder, "headrace", pathlib.Path(model).parent)
    shutil.rmtree(folder)


@pytest.fixture(params=[IMAGE_USER, ARBITRARY_USER])
def user(request):
    return request.param


@pytest.fixture
def server(image, user):
    """A running server of the image and its address."""
    model = "/models/" + pathlib.Path(os.environ["HEADRACE_TEST_MODEL"]).name
    run = subprocess.Popen(
        image.command(user, *image.config["Entrypoint"], "--listen", "127.0.0.1:0", "--model", model),
        stdout=subprocess.PIPE, text=True)
    try:
        event = json.loads(run.stdout.readline())
        assert event["event"] == "serving"
        yield run, event["listen"][0]
    finally:
        run.kill()
        run.wait()


def test_the_image_runs_its_server_as_nobody_in_particular(image):
    assert image.config["User"] == IMAGE_USER
    assert image.config["Entrypoint"] == ["headrace-server"]
    assert image.config["Cmd"][:2] == ["--model", "/models/model.gguf"]
    assert image.config["Healthcheck"]["Test"][:3] == ["CMD", "headrace", "health"]
    assert "50051/tcp" in image.config["ExposedPorts"]


def test_the_image_has_no_compiler_and_no_sources(image):
    assert not pathlib.Path(image.root, "usr/bin/g++").exists()
    assert not pathlib.Path(image.root, "src").exists()


def test_it_serves_on_a_read_only_root_without_a_home(image, user, server):
    run, address = server
    status = pathlib.Path(f"/proc/{run.pid}/status").read_text(encoding="utf-8")
    assert f"\nUid:\t{user.split(':')[0]}\t" in status

    output(*image.command(user, "headrace", "health", "--server", address))
    text = output(*image.command(user, "headrace", "generate", "--server", address,
                                 "--prompt", "Once upon a time", "--max_tokens", "8", "--temperature", "0"))

    assert text.strip()


def test_it_stops_cleanly(server):
    run, _ = server

    run.send_signal(signal.SIGTERM)

    assert run.wait(timeout=60) == 0


def test_its_health_check_fails_when_nothing_serves(image, user):
    check = image.config["Healthcheck"]["Test"][1:]
    done = subprocess.run(image.command(user, *check[:-1], "127.0.0.1:1"), capture_output=True)

    assert done.returncode != 0
