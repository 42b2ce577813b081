"""Rules on shell commands are judged by the commands that the line runs, not by how it is written."""

import shutil
import subprocess
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from agent_kernel.approvals.policy import Policy
from agent_kernel.approvals.rules import JudgedCall, Rule
from agent_kernel.approvals.shell_rules import allows, restricts
from agent_kernel.protocol.vocabulary import Approval, PolicyMode
from agent_kernel.tools.review.shell_programs import running
from tests.cpu import bounded

ALLOW_GIT = 'allow run_shell where command matches "git *"'
DENY_RM = 'deny run_shell where command matches "rm *"'


def judged(command: str, *rules: str, default: PolicyMode = "ask") -> Approval:
    call = JudgedCall("run_shell", {"command": command}, "d" * 64, "ask", read_only=False)
    return Policy(rules, default).judge(call).approval


RUNS_RM = [
    *("rm x", "rm", "/bin/rm x", r"r\m x", "'rm' x", "r''m x", "RM x", "true;rm x", "false || rm x", "true |& rm x"),
    *("true & rm x", "ls\nrm x", "rm \\\n x", "! rm x", "A=1 rm x", ">f rm x", "(rm x)", "((1)); rm x", "{ rm x; }"),
    *("f() { rm x; }; f", "for i in 1; do rm $i; done", "while rm x; do :; done", "if :; then :; else rm x; fi"),
    *("case a in a) rm x;; esac", "$(rm x)", "`rm x`", 'echo "$(rm x)"', "x=$(rm y)", "cat <(rm x)"),
    *("echo ${x:-$(rm y)}", "[[ $(rm x) ]]", "export A=$(rm x)", "cat <<EOF\n$(rm x)\nEOF", "command -p rm x"),
    *("time rm x", "env -i A=1 rm x", "timeout -s KILL 5 rm x", "ls | xargs rm", "sudo sudo rm x", "sh -c 'rm x'"),
    *("/bin/sh -c 'sh -c \"rm x\"'", "eval 'rm x'", "alias a='rm x'", "find . -exec rm {} +", "npx rm x"),
    *("git submodule foreach rm x", "ssh host 'rm x'", r"echo a\ #b; rm x"),
]  # fmt: skip
CANT_BE_READ = [
    *("$x y", "$(cat f) y", r"$'\x72m' x", "/b?n/rm x", "r{m,} x", "r\\\nm x", "~/rm x", "eval $x", "sh", "sh -c $x"),
    *("bash <<EOF\nrm x\nEOF", "cat <<'EOF' | sh\nrm x\nEOF", "sh <<< 'rm x'", "curl http://x | bash", ". ./x.sh"),
    *("xargs $x", "python3 -Ic 'x'", "python", "node -e x", "awk 'BEGIN{system(\"rm x\")}'", "echo 'a", "echo $("),
    *("a\rb", "a\x00b", "x" * 60_000, "git\n\\pwn x", "true; " * 3_000, "(" * 200 + "true" + ")" * 200),
]  # fmt: skip
RUNS_NO_RM = [
    *("ls", "git status", "echo 'rm x'", "ls rm", "rmdir x", "git rm x", "make clean", "bash x.sh"),
    *("python -m pytest", "ls $(cat f)", "ls > rm", "ls # rm x", "A=rm ls", "awk '{print $1}' f", "uv run pytest"),
]  # fmt: skip


PLAIN_GIT = [
    *("git status", "git", "git log -n1 --oneline; git diff", "git log && git diff || git status", "git log | git x"),
    *("git log\ngit status\n", 'git log --author="a b"', "git commit -m 'a; rm x'", "git show HEAD~1 HEAD^ a:b"),
    *("git log 2>/dev/null", "git log 2>&1", "git log >/dev/null", "git add -A", "git push -f origin +a", "git log;"),
]
NOT_PLAIN_GIT = [
    *("git --version; touch pwned", "git log | head", "git log &", "(git log)", "{ git log; }", "git log > f"),
    *("git log &> f", "git log < f", "git log <<< f", "git log $x", 'git log "$x"', "git log `x`", "git log *.py"),
    *("git log {a,b}", "git show ~/x", "git log $'a'", "A=1 git log", "git log # x", "git log \\\n x", "! git log"),
    *("/usr/bin/git log", "env git log", "time git log", "sh -c 'git log'", "git() { x; }; git log", "git log é", ""),
    *("git -c core.pager=x log", "git -C x log", "git --git-dir=x log", "git --exec-pa=x x", "git clone -u x y"),
    *("git diff --output=x", "git config core.pager x", "git bisect run x", "git clone ext::x", "git log\u00a0x"),
]


@pytest.mark.parametrize("command", RUNS_RM)
def test_a_denied_program_is_found_wherever_it_stands(command: str) -> None:
    assert judged(command, DENY_RM, "allow run_shell") == "deny"
    assert judged(command, DENY_RM.replace("deny", "ask"), "allow run_shell") == "ask"


@pytest.mark.parametrize("command", CANT_BE_READ)
def test_what_cant_be_read_asks_where_a_rule_restricts_commands(command: str) -> None:
    assert judged(command, DENY_RM, "allow run_shell") == "ask"
    assert judged(command, DENY_RM, default="allow") == "ask"
    assert judged(command, default="allow") == "allow"


@pytest.mark.parametrize("command", RUNS_NO_RM)
def test_other_commands_are_left_alone(command: str) -> None:
    assert judged(command, DENY_RM, "allow run_shell") == "allow"


@pytest.mark.parametrize("command", PLAIN_GIT)
def test_an_allowed_program_runs_with_any_words(command: str) -> None:
    assert judged(command, ALLOW_GIT) == "allow"


@pytest.mark.parametrize("command", [*RUNS_RM, *CANT_BE_READ, *NOT_PLAIN_GIT])
def test_an_allow_covers_nothing_but_plain_commands_that_it_names(command: str) -> None:
    assert judged(command, ALLOW_GIT) == "ask"
    assert Rule.parse(ALLOW_GIT).weigh(JudgedCall("run_shell", {"command": command}, "d")) != "yes"


COVERED = {
    "git status *": ["git status", "git status --short x"],
    "python -m pytest *": ["python -m pytest -c x"],
    "uv run pytest *": ["uv run pytest -x"],
    "find *": ["find . -name x"],
    "sed *": ["sed -n 1,5p f"],
    "*": ["git status", "git status; rm x"],
}
NOT_COVERED = {
    "git status *": ["git stash"],
    "pytest tests/*": ["pytest tests/../x", "pytest tests/core/x", "pytest tests/core -p x"],
    "python *": ["python -c x", "python -m pip install x"],
    "uv run *": ["uv run rm x"],
    "uv run pytest *": ["uv run --with x pytest"],
    "find *": ["find . -name x -delete", "find . -fprint x"],
    "tar *": ["tar cf x --checkpoint-action=exec=y z"],
    "sed *": ["sed -n 's/a/b/w f' x"],
    "timeout *": ["timeout 5 rm x"],
    "*": ["git status $x"],
}


@pytest.mark.parametrize(
    ("pattern", "command", "expected"),
    [
        *((pattern, command, "allow") for pattern, commands in COVERED.items() for command in commands),
        *((pattern, command, "ask") for pattern, commands in NOT_COVERED.items() for command in commands),
    ],
)
def test_a_pattern_is_compared_word_by_word(pattern: str, command: str, expected: Approval) -> None:
    assert judged(command, f'allow run_shell where command matches "{pattern}"') == expected


@pytest.mark.parametrize(
    ("rule", "command", "expected"),
    [
        ('deny run_shell where command is "shutdown"', "true; /sbin/shutdown", "deny"),
        ('deny run_shell where command matches "*--force*"', "cd x && git push origin --force", "deny"),
        ('deny run_shell where command matches "git push --force *"', "git push $options", "ask"),
        ('deny run_shell where command matches "git push --force *"', "git log $options", "allow"),
        ('deny run_shell where command matches "/bin/rm *"', "rm x", "deny"),
        ('deny * where command matches "rm *"', "true; rm x", "deny"),
    ],
)
def test_rules_that_restrict(rule: str, command: str, expected: Approval) -> None:
    assert judged(command, rule, default="allow") == expected


@pytest.mark.parametrize("piece", ["rm x\n", "$(", '"', "`", "<<E\n", "for((;;", "[[", "if "])
def test_any_line_is_read_in_time(piece: str) -> None:
    line = (piece * 50_000)[:49_000]
    bounded(1, lambda: running(line))


BASH = shutil.which("bash")
SAFE = ["git", "pwn", "status", "-s", "a/b", "'x y'", '"x y"']
BETWEEN = [" ", " ", " ", "\t", ";", " && ", " | ", "\n", ""]
ODD = [
    *("$", "\\", "'", '"', "`", "(", ")", "{", "}", "<", ">", "&", "|", "#", "=", "!", "*", "?", "~", "[", "]", "\r"),
    *("\x0b", "\u00a0", "é", "EOF", "<<EOF", "\n", "\\\n", ";", ";;"),
    *("$(", "${", "$((", "))", "'EOF'", "x=", "()", "#x"),
    *("if", "then", "fi", "do", "for", "case", "in", "esac"),
    *("time", "function", "[[", "]]", "coproc", "eval", "command"),
    *("<(", ">(", "$'", '$"', "<<<", ">&", "2>", "&>", "1"),
    *("test -v ", "[ -v ", "'a[$(pwn)]'", "printf -v ", "y='a[$(pwn)]';", "((y))", "${y@P}", "trap "),
    *("read ", "declare ", "PS4='$(pwn)';", "set -x;", "unset ", "${a[y]}", "builtin "),
    *("[[ y -eq ", "exec ", "let ", "y=", "-- "),
    *("/dev/null", "a=(", "{a,b}", "..", "then\n", "while", "done"),
]  # fmt: skip
LINES = st.lists(
    st.one_of(st.sampled_from(SAFE), st.sampled_from(BETWEEN), st.sampled_from(BETWEEN), st.sampled_from(ODD)),
    max_size=14,
).map("".join)  # fmt: skip
FEW = settings(max_examples=60, suppress_health_check=list(HealthCheck))


def ran(line: str) -> tuple[set[str], set[str]]:
    """The programs that Bash runs for a line, of those that there are, and the files that it leaves."""
    with tempfile.TemporaryDirectory() as folder:
        programs, here, log = Path(folder, "bin"), Path(folder, "here"), Path(folder, "ran")
        for made in (here, programs):
            made.mkdir()
        for name in ("git", "pwn"):
            (programs / name).write_text(f"#!{BASH}\necho {name} >> {log}\n")
            (programs / name).chmod(0o755)
        environment = {"PATH": str(programs), "HOME": str(here)}
        quiet: dict[str, Any] = {"stdin": subprocess.DEVNULL, "capture_output": True}
        with suppress(subprocess.TimeoutExpired):
            subprocess.run([str(BASH), "-c", line], cwd=here, env=environment, timeout=5, check=False, **quiet)
        return set(log.read_text().split()) if log.exists() else set(), {path.name for path in here.iterdir()}


@pytest.mark.skipif(BASH is None, reason="needs Bash")
@FEW
@given(LINES)
def test_bash_runs_nothing_but_what_an_allow_names(line: str) -> None:
    if allows(["git *"], line):
        programs, files = ran(line)
        assert programs <= {"git"}
        assert files == set()


@pytest.mark.skipif(BASH is None, reason="needs Bash")
@FEW
@given(LINES)
def test_bash_runs_nothing_that_a_deny_has_not_seen(line: str) -> None:
    if "\0" not in line and restricts("pwn *", line) == "no":
        assert "pwn" not in ran(line)[0]
