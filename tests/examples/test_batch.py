"""examples/batch: a batch on a real Dask cluster of which a worker is killed, and the workflows' commands."""

import random
import re
import shlex
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import orjson
import pytest
import yaml

from agent_kernel.command_line import parser_of_commands

EXAMPLE = Path(__file__).parents[2] / "examples" / "batch"
NOTEBOOKS = 10


def run(folder: Path, *options: str) -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, str(EXAMPLE / "run.py"), "--notebooks", str(NOTEBOOKS), "--workers", "2"]
    done = subprocess.run(
        [*command, "--directory", str(folder), *options], capture_output=True, text=True, timeout=550, check=False
    )
    print(done.stdout, done.stderr)  # noqa: T201 -- what a failure is looked into with
    return done


def report(folder: Path) -> dict[str, dict[str, Any]]:
    return {one["name"]: one for one in orjson.loads((folder / "report.json").read_bytes())["notebooks"]}


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted(folder.iterdir()) if path.suffix in (".csv", ".json")}


@pytest.mark.kernel
@pytest.mark.soak
@pytest.mark.timeout(1200)
def test_each_notebook_is_done_once_or_reported_though_a_worker_is_killed(tmp_path: Path) -> None:
    seed = random.randrange(1_000_000)
    print("seed", seed)  # noqa: T201 -- to do it again: run.py --kill 1 --seed
    done = run(tmp_path, "--kill", "1", "--seed", str(seed))
    assert len(re.findall("^killed ", done.stdout, re.MULTILINE)) == 1
    said = report(tmp_path)
    assert len(said) == NOTEBOOKS
    unknown = [name for name, one in said.items() if one["status"] != "passed"]
    assert [said[name]["status"] for name in unknown] in ([], ["unknown"])
    assert done.returncode == (1 if unknown else 0)

    findings = contents(tmp_path / "findings")
    for name in said:
        lines = findings.get(f"{name}.csv", b"").splitlines()
        assert len(lines) <= 4 if name in unknown else len(lines) == 4, name

    entries = [orjson.loads(line) for line in (tmp_path / "audit.jsonl").read_bytes().splitlines()]
    assert [entry["at"] for entry in entries] == sorted(entry["at"] for entry in entries)
    calls = Counter((entry["notebook"], entry["kind"]) for entry in entries)
    for name, one in said.items():
        assert one["audit_fault"] == ""
        ended = calls[name, "outcome"]
        assert (calls[name, "decision"], ended) == (1, 1) or (name in unknown and ended <= calls[name, "decision"] <= 1)

    results = contents(tmp_path / "logs")
    once_more = run(tmp_path)
    assert once_more.returncode == done.returncode
    assert once_more.stdout.count("earlier, not run again") == NOTEBOOKS
    assert contents(tmp_path / "logs") == results
    assert contents(tmp_path / "findings") == findings


def commands(name: str) -> list[list[str]]:
    """The words of each `agent-kernel` command in a workflow."""

    def texts(value: Any) -> list[str]:
        match value:
            case str():
                return [value.replace("\\\n", " ")]
            case dict():
                return [text for one in value.values() for text in texts(one)]
            case list():
                return [text for one in value for text in texts(one)]
        return []

    found = texts(yaml.safe_load((EXAMPLE / name).read_text(encoding="utf-8")))
    return [shlex.split(match) for text in found for match in re.findall(r"agent-kernel ((?:run|report) .*)", text)]


@pytest.mark.parametrize("name", ["github-actions.yml", "argo.yaml"])
def test_the_commands_of_the_workflows_are_commands(name: str) -> None:
    parsed = [parser_of_commands().parse_args(command) for command in commands(name)]
    assert [options.command for options in parsed] == ["run", "report"]
    assert parsed[0].once
    assert parsed[0].logs.name == parsed[1].logs.name
    assert (EXAMPLE / parsed[0].notebooks[0]).is_file()
