"""The scripts of deploy/ and the one package list that they share."""

import pathlib
import re
import shutil
import subprocess

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
DEPLOY = ROOT / "deploy"


def shell_scripts():
    files = [file for file in (*DEPLOY.iterdir(), ROOT / ".ci/run") if file.is_file()]
    return [file for file in files if file.read_bytes().startswith((b"#!/bin/sh", b"#!/usr/bin/env bash"))]


def packages(*sections):
    return subprocess.run([DEPLOY / "packages", *sections], capture_output=True, text=True)


@pytest.mark.parametrize("script", shell_scripts(), ids=lambda script: script.name)
def test_shellcheck_finds_nothing(script):
    if not shutil.which("shellcheck"):
        pytest.skip("shellcheck is not installed")

    done = subprocess.run(["shellcheck", script], capture_output=True, text=True)

    assert done.returncode == 0, done.stdout


def test_scripts_are_executable():
    scripts = shell_scripts()

    assert len(scripts) >= 6
    assert [script.name for script in scripts if not script.stat().st_mode & 0o111] == []


def test_packages_prints_sections_without_comments():
    names = packages("build", "test").stdout.split("\n")[:-1]

    assert "libdnnl-dev" in names and "python3-pytest" in names
    assert "buildah" not in names
    assert all(re.fullmatch(r"[a-z0-9][a-z0-9.+-]+", name) for name in names)
    assert len(set(names)) == len(names)


def test_packages_refuses_an_unknown_section():
    done = packages("biuld")

    assert done.returncode != 0
    assert "[biuld]" in done.stderr


def test_every_package_that_the_build_names_is_listed():
    """The advice in CMake's error messages comes from the same list."""
    listed = set(packages("build").stdout.split())
    text = (ROOT / "CMakeLists.txt").read_text(encoding="utf-8")

    named = set(re.findall(r"\b(?:lib[a-z0-9+-]+-dev|[a-z0-9+-]+-dev|protobuf-compiler[a-z-]*)\b", text))

    assert named and named <= listed, named - listed


def test_the_image_installs_only_listed_packages():
    text = (DEPLOY / "Dockerfile").read_text(encoding="utf-8")

    installs = re.findall(r"apt-get install.*", text)
    assert len(installs) == 2
    assert "packages build)" in installs[0] and "packages runtime)" in installs[1]
