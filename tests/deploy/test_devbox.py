"""deploy/devbox: which environment it takes, and what passes through.

A copy of the script with a short package list runs where /etc/os-release says
another distribution and `docker` and `podman` are stand-ins that write down how
they were called; so nothing is installed and no engine is needed.
"""

import os
import pathlib
import shutil
import signal
import subprocess
import textwrap

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
PRIVATE = ["unshare", "--mount", "--propagation", "private"]


def may_mount():
    return os.geteuid() == 0 and subprocess.run([*PRIVATE, "true"], capture_output=True).returncode == 0


needs_mounts = pytest.mark.skipif(not may_mount(), reason="needs root and mount namespaces")


class Host:
    """A machine as the script sees it."""

    def __init__(self, folder, id="debian", version="12"):
        self.folder = folder
        self.bin = folder / "bin"
        self.bin.mkdir()
        self.repository = folder / "repository"
        (self.repository / "deploy").mkdir(parents=True)
        for name in ("devbox", "packages"):
            shutil.copy(ROOT / "deploy" / name, self.repository / "deploy" / name)
        self.write_packages("[build]\nca-certificates\n[test]\nprocps\n")
        self.os_release = folder / "os-release"
        self.os_release.write_text(f"ID={id}\nVERSION_ID={version}\n", encoding="utf-8")
        self.cache = folder / "cache"

    def write_packages(self, text):
        (self.repository / "deploy/packages.txt").write_text(text, encoding="utf-8")

    def program(self, name, script):
        file = self.bin / name
        file.write_text("#!/bin/sh\n" + textwrap.dedent(script), encoding="utf-8")
        file.chmod(0o755)

    def engine(self, name, runs):
        """A stand-in that has an image and notes the arguments of `run`."""
        self.program(name, f"""
            case $1 in
              info) exit {0 if runs else 1} ;;
              run) for a; do printf '%s\\n' "$a"; done >{self.folder}/{name}.called; exit 42 ;;
            esac
        """)

    def called(self, name):
        file = self.folder / f"{name}.called"
        return file.read_text(encoding="utf-8").splitlines() if file.exists() else None

    def command(self, *arguments):
        mount = 'mount --bind "$1" "$(readlink -f /etc/os-release)"; shift; exec "$@"'
        return [*PRIVATE, "sh", "-c", mount, "-", self.os_release,
                self.repository / "deploy/devbox", *arguments]

    def environment(self, **variables):
        kept = {name: value for name, value in os.environ.items() if not name.startswith("HEADRACE_")}
        return {**kept, "PATH": f"{self.bin}:{os.environ['PATH']}",
                "XDG_CACHE_HOME": str(self.cache), **variables}

    def run(self, *arguments, **variables):
        return subprocess.run(
            self.command(*arguments), cwd=self.repository, env=self.environment(**variables),
            stdin=subprocess.DEVNULL, capture_output=True, text=True)


@pytest.fixture
def host(tmp_path):
    return Host(tmp_path)


def test_without_a_command_it_prints_its_usage():
    done = subprocess.run([ROOT / "deploy/devbox"], capture_output=True, text=True)

    assert done.returncode != 0
    assert "usage: deploy/devbox CMD" in done.stdout


def test_an_unknown_mode_is_refused_by_name():
    done = subprocess.run([ROOT / "deploy/devbox", "true"], capture_output=True, text=True,
                          env={**os.environ, "HEADRACE_DEVBOX": "vagrant"})

    assert done.returncode == 1
    assert "HEADRACE_DEVBOX=vagrant" in done.stderr


@needs_mounts
def test_a_running_docker_is_taken(host):
    host.engine("docker", runs=True)
    host.engine("podman", runs=True)

    done = host.run("some", "command", "with spaces", MARK="a b")

    assert done.returncode == 42, done.stderr
    arguments = host.called("docker")
    assert arguments[-3:] == ["some", "command", "with spaces"]
    assert arguments[arguments.index("--workdir") + 1] == str(host.repository)
    assert "type=bind,source=/tmp,target=/tmp" in arguments
    assert "MARK" in arguments
    assert "--tty" not in arguments
    assert host.called("podman") is None


@needs_mounts
def test_a_client_without_an_engine_is_passed_over(host):
    host.engine("docker", runs=False)
    host.engine("podman", runs=True)

    assert host.run("true").returncode == 42
    assert host.called("docker") is None


@needs_mounts
def test_an_engine_that_cannot_make_the_image_gives_way_to_a_chroot(host):
    host.program("docker", "[ $1 = info ]\n")
    host.engine("podman", runs=False)
    host.program("mmdebstrap", "exit 1\n")

    done = host.run("true")

    assert done.returncode == 1
    assert "docker could not make the image; taking a chroot" in done.stderr
    assert "the environment could not be made" in done.stderr
    assert roots(host) == []


@needs_mounts
def test_an_engine_asked_for_by_name_does_not_give_way(host):
    host.program("docker", "[ $1 = info ]\n")

    done = host.run("true", HEADRACE_DEVBOX="docker")

    assert done.returncode == 1
    assert "could not make the image (see above)" in done.stderr


@needs_mounts
def test_debian_13_itself_runs_natively(tmp_path):
    host = Host(tmp_path, version="13")
    host.engine("docker", runs=True)
    host.write_packages("[build]\nbash\n[test]\ncoreutils\n")

    done = host.run("sh", "-c", "echo native; exit 5")

    assert (done.returncode, done.stdout) == (5, "native\n"), done.stderr
    assert host.called("docker") is None


@needs_mounts
def test_debian_13_installs_what_is_missing(tmp_path):
    host = Host(tmp_path, version="13")
    host.write_packages("[build]\nbash\n[test]\nno-such-package\n")
    host.program("apt-get", f'echo "$*" >>{tmp_path}/apt.called\n')

    assert host.run("true").returncode == 0

    calls = (tmp_path / "apt.called").read_text(encoding="utf-8").splitlines()
    assert calls[0] == "update"
    assert calls[1].endswith("install -y --no-install-recommends no-such-package")


@needs_mounts
@pytest.mark.parametrize("variable, value", [("HOME", "/var/lib/worker"), ("XDG_CACHE_HOME", "/var/cache/worker")])
def test_a_home_outside_the_usual_places_is_shown_too(host, variable, value):
    host.engine("docker", runs=True)
    wrapper = f"mkdir -p {value}; mount -t tmpfs none /var/{value.split('/')[2]}; mkdir -p {value}; exec \"$@\""

    subprocess.run([*PRIVATE, "sh", "-c", wrapper, "-", *host.command("true")],
                   cwd=host.repository, env=host.environment(**{variable: value}), check=False)

    assert f"type=bind,source={value},target={value}" in host.called("docker")


# --- A real chroot: downloads Debian ------------------------------------------


def roots(host):
    return sorted(path.name for path in (host.cache / "headrace").glob("devbox-*"))


def start_set_up(host):
    """Starts a first run and returns it once it is filling its directory."""
    run = subprocess.Popen(host.command("true"), cwd=host.repository, env=host.environment(),
                           stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, process_group=0)
    for line in run.stderr:
        if "extracting archives" in line:
            return run
    raise AssertionError("the set-up ended before it began to unpack")


@pytest.fixture
def no_engine(host):
    host.engine("docker", runs=False)
    host.engine("podman", runs=False)
    return host


@pytest.mark.slow
@needs_mounts
def test_a_chroot_passes_everything_through_and_leaves_no_mounts(no_engine):
    host = no_engine
    script = 'cat; pwd; . /etc/os-release; echo $VERSION_ID $MARK; echo made >new; echo warned >&2; exit 7'

    done = subprocess.run(host.command("sh", "-c", script), cwd=host.repository,
                          env=host.environment(MARK="seen"), input="given\n", capture_output=True, text=True)

    assert done.returncode == 7, done.stderr
    assert done.stdout.splitlines() == ["given", str(host.repository), "13 seen"]
    assert done.stderr.splitlines()[-1] == "warned"
    assert (host.repository / "new").read_text() == "made\n"
    assert str(host.cache) not in pathlib.Path("/proc/self/mountinfo").read_text()


@pytest.mark.slow
@needs_mounts
def test_the_command_gets_the_signals(no_engine):
    host = no_engine
    assert host.run("true").returncode == 0
    script = 'trap "exit 5" TERM; echo ready; while :; do sleep 0.1; done'

    run = subprocess.Popen(host.command("bash", "-c", script), cwd=host.repository,
                           env=host.environment(), stdout=subprocess.PIPE, text=True)
    assert run.stdout.readline() == "ready\n"
    run.send_signal(signal.SIGTERM)

    assert run.wait() == 5


@pytest.mark.slow
@needs_mounts
@pytest.mark.parametrize("sent, status", [
    (signal.SIGTERM, 143), (signal.SIGINT, 130), (signal.SIGKILL, -signal.SIGKILL)])
def test_an_interrupted_set_up_is_repaired_by_the_next_two_runs_at_once(no_engine, sent, status):
    host = no_engine
    run = start_set_up(host)
    run.send_signal(sent)
    assert run.wait() == status

    runs = [subprocess.Popen(host.command("true"), cwd=host.repository, env=host.environment()) for _ in range(2)]

    assert [run.wait() for run in runs] == [0, 0]
    assert len(roots(host)) == 1 and "partial" not in roots(host)[0]


@pytest.mark.slow
@needs_mounts
def test_prune_removes_environments_of_other_package_lists(no_engine):
    host = no_engine
    assert host.run("true").returncode == 0
    old = roots(host)
    host.write_packages("[build]\nca-certificates\n[test]\nless\n")
    assert "--prune" in host.run("true").stderr
    environment = host.cache / "headrace" / old[0]
    user = subprocess.Popen(["chroot", environment, "sh", "-c", "echo in; read x"],
                            stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    user.stdout.readline()

    assert "still in use" in host.run("--prune").stderr
    assert old[0] in roots(host)
    user.communicate(b"\n")
    assert host.run("--prune").returncode == 0

    assert len(roots(host)) == 1 and roots(host) != old
