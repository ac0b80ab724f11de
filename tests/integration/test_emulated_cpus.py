"""The kernels on processors that are not at hand: a test program of ours is all that a Linux runs
in Bochs, which emulates them instruction by instruction."""
import os
import pathlib
import platform
import shutil
import subprocess

import pytest
from servers import program

pytestmark = pytest.mark.slow

# Bochs' name of a processor, and the kernels that are best there. Linux, which wants XFD beside it, leaves
# AMX alone.
PROCESSORS = [
    ("corei5_lynnfield_750", "SSE4"),
    ("corei7_haswell_4770", "AVX2"),
    ("arrow_lake", "AVX2_VNNI"),
    ("corei7_skylake_x", "AVX3"),
    ("sapphire_rapids", "AVX3_DL"),
]

LINUX_ARGUMENTS = "console=ttyS0 loglevel=4 rdinit=/init mitigations=off nosmp tsc=reliable " \
    "ibt=off no5lvl clearcpuid=amx_tile,amx_int8,amx_bf16"

INIT = """#!/bin/busybox sh
/bin/busybox mount -t proc proc /proc
/bin/busybox mount -t sysfs sys /sys
/bin/busybox mount -t devtmpfs dev /dev
exec >/dev/ttyS0 2>&1
cd /tmp
/test --gtest_color=no --gtest_filter='{selection}'
echo "ended: $?"
/bin/busybox sleep 1
/bin/busybox poweroff -f
"""

BOCHS = """display_library: term
romimage: file=/usr/share/bochs/BIOS-bochs-latest
vgaromimage: file=/usr/share/bochs/VGABIOS-lgpl-latest
cpu: model={processor}, ips=60000000
memory: guest=1024, host=1024
ata0-master: type=cdrom, path={folder}/disc.iso, status=inserted
boot: cdrom
com1: enabled=1, mode=file, dev={folder}/serial
log: {folder}/log
panic: action=fatal
error: action=ignore
"""


def libraries(file):
    """Files that the loader maps for it."""
    return [word for word in subprocess.check_output(["ldd", file], text=True).split() if word.startswith("/")]


def unpack_linux(folder):
    depends = subprocess.check_output(["apt-cache", "depends", "linux-image-cloud-amd64"], text=True)
    (package,) = [word for word in depends.split() if word.startswith("linux-image-")][1:]
    subprocess.run(["apt-get", "download", package], check=True, cwd=folder)
    (archive,) = folder.glob("linux-image-*.deb")
    subprocess.run(["dpkg-deb", "-x", archive, folder], check=True)
    (kernel,) = folder.glob("boot/vmlinuz-*")
    return kernel


def make_root(folder, test, selection):
    """What is in memory when Linux starts."""
    for name in ("bin", "dev", "proc", "sys", "tmp"):
        (folder / name).mkdir(parents=True)
    shutil.copy("/bin/busybox", folder / "bin")
    subprocess.run(["strip", "-o", folder / "test", test], check=True)
    onednn = min(map(str, pathlib.Path("/usr/lib").glob("*/libdnnl.so.[0-9]*")))
    for library in {onednn, *libraries(test), *libraries(onednn)}:
        (folder / library[1:]).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(library, folder / library[1:])
    init = folder / "init"
    init.write_text(INIT.format(selection=selection))
    init.chmod(0o755)


def make_disc(folder, kernel):
    grub = folder / "disc/boot/grub"
    grub.mkdir(parents=True)
    shutil.copy(kernel, folder / "disc/boot/linux")
    (grub / "grub.cfg").write_text("set timeout=0\nmenuentry test {\n"
                                   f"linux /boot/linux {LINUX_ARGUMENTS}\ninitrd /boot/root\n}}\n")
    names = subprocess.check_output(["find", "."], cwd=folder / "root")
    with (folder / "disc/boot/root").open("wb") as file:
        subprocess.run(["cpio", "-o", "-H", "newc", "--quiet"], check=True, cwd=folder / "root",
                       input=names, stdout=file)
    subprocess.run(["grub-mkrescue", "-o", folder / "disc.iso", folder / "disc"], check=True, stderr=subprocess.DEVNULL)


@pytest.fixture(scope="module")
def disc(install, tmp_path_factory):
    if platform.machine() != "x86_64":
        pytest.skip("the test programs are not for these processors")
    install("emulation", "bochs", "grub-mkrescue", "busybox")
    folder = tmp_path_factory.mktemp("disc")
    test = pathlib.Path(program("headrace-server")).parents[1] / "tests/linear_test"
    make_root(folder / "root", test, "*64To64*:Int8*:OneDnn*:Gated*:QuantizedRows*")
    make_disc(folder, unpack_linux(folder))
    return folder / "disc.iso"


@pytest.mark.parametrize("processor, isa", PROCESSORS, ids=[isa for _, isa in PROCESSORS])
def test_kernels_keep_their_bits(disc, tmp_path, processor, isa):
    (tmp_path / "disc.iso").symlink_to(disc)
    settings = tmp_path / "bochsrc"
    settings.write_text(BOCHS.format(processor=processor, folder=tmp_path))

    # It wants a terminal; that the power goes off is an error to it.
    subprocess.run(["script", "--quiet", "--command", f"bochs -q -f {settings}", "/dev/null"], stdin=subprocess.DEVNULL,
                   stdout=subprocess.DEVNULL, env={**os.environ, "TERM": "xterm"}, timeout=1200, check=False)

    said = (tmp_path / "serial").read_text(errors="replace")
    assert "ended: 0" in said, said[-4000:]
    assert f"kernels: {isa}," in said and "[  PASSED  ]" in said
