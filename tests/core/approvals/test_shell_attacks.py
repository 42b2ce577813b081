"""Lines that delete a file past a rule that denies `rm`, tried with Bash, and ordinary lines that rules leave alone."""

import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.core.approvals.test_shell_rules import DENY_RM, judged

BASH = shutil.which("bash")
SEEN = [
    *("env - rm x", "env -S'rm x'", "env -S 'sh -c \"rm x\"'", "env -vS 'rm x'", "env -S'-i A=1 /bin/rm' x"),
    *("env --split='rm x'", "env --unset=A -iS 'rm x'", "env -S 'bash -c' 'rm x'", "env 'a b=1' rm x"),
    *("eval -- rm x", "builtin eval -- rm x", "command -p -- rm x", "exec -la y rm x", "nice -n5 -- rm x"),
    *("nohup /bin/rm x", "stdbuf -o L -e0 rm x", "timeout -k 1 --signal KILL 5 rm x", "flock -w 1 . rm x"),
    *("flock . -c 'rm x'", "time A=1 rm x", "coproc rm x; wait", "find . -name x -exec env - rm {} \\;"),
    *("find . -name x -exec sh -c 'rm \"$1\"' _ {} +", "echo x | xargs -I{} env - rm {}", "xargs -a <(echo x) rm"),
    *("echo x | xargs -n1 sh -c 'rm \"$0\"'", "script -qc 'rm x' o", "bash -co errexit 'rm x'", "sh -c -- 'rm x'"),
    *("bash --norc -o pipefail -c 'rm x'", "trap -- 'trap -- \"rm x\" EXIT' DEBUG; :", "git -c alias.y='!rm x' y"),
]  # fmt: skip
"""Lines in which `rm` is found."""
USES = [
    *("(( y ))", "echo $[y]", "[[ y -eq 0 ]]", "echo ${a[y]}", "z=abc; echo ${z:y}", "a[y]=1", "a=([y]=1)"),
    *("echo ${!y}", "for ((y;0;)); do :; done", "declare -i n=y", "let n=y", "cat <<< $((y))", ": ${z:=$((y))}"),
    *("a=y; echo ${a#$((y))}", "unset z; a=(1); unset a[y]"),
]  # fmt: skip
EVALUATED = [
    *("test -v 'a[$(rm x)]'", "[[ -v 'a[$(rm x)]' ]]", "o=-v; test $o 'a[$(rm x)]'", "o='-v a[$(rm${IFS}x)]'; [ $o ]"),
    *("[ 1 = 1 -a -v 'a[$(rm x)]' ]", "printf -v 'a[$(rm x)]' y", "o=-v; printf $o 'a[$(rm x)]' y"),
    *("read 'a[$(rm x)]' <<< y", "declare 'a[$(rm x)]=1'", "f() { local 'a[$(rm x)]=1'; }; f"),
    *("declare -a 'a=($(rm x))'", "y='($(rm x))'; readonly -a a=$y", "declare -n r='a[$(rm x)]'; r=1"),
    *("exec {a['$(rm x)']}> f", "a[0]=1; a['$(rm x)']=2", "y='$(rm x)'; echo ${y@P}"),
    *("mapfile -C 'rm x' -c 1 a <<< y", "readarray -C 'rm x;:' -c 1 a <<< y", "compgen -C 'rm x' y"),
    *(f"y='a[$(rm x)]'; {use}" for use in USES),
]  # fmt: skip
"""Lines in which Bash evaluates a subscript, a value or a text."""
SET = [
    *("PS4='$(rm x)'; set -x; :", "printf -vPS4 '\\x24(rm x)'; set -x; :", "read -r PS4 <<< '$(rm x)'; set -x; :"),
    *("for PS4 in '$(rm x)'; do set -x; :; done", "unset PS4; : ${PS4:='$(rm x)'}; set -x; :"),
    *("BASH_ENV='$(rm x)' bash -c :", "env BASH_ENV='$(rm x)' bash -c :", "export BASH_ENV='$(rm x)'; bash -c :"),
    *("set -k; bash -c : BASH_ENV='$(rm x)'", "PROMPT_COMMAND='rm x' bash --norc -i <<< :"),
    *("hash -p /bin/rm y; y x", "shopt -s expand_aliases; alias y='r''m'\ny x"),
    *("HOME=$PWD; echo rm x > .bash_profile; bash -lc :", "a=-exec; find x $a rm x \\;", "bash <(echo rm x)"),
    *("echo rm x | bash /dev/stdin", "echo rm x | bash -s -- -c y", "source <(echo rm x)", "coproc { rm x; }; wait"),
    *("time { rm x; }", "bash -c 'eval \"$1\"' _ 'rm x'", "env -S 'rm\\_x'", "y() { $1 x; }; y rm"),
    *('set -- rm x; "$@"', "echo 'rm x' | xargs -d '\\n' sh -c", "echo rm x | xargs env"),
]  # fmt: skip
"""Lines that set what a shell or a program runs, or hand a shell its code."""
PROGRAMS = [
    *("tar cf /dev/null x --checkpoint=1 --checkpoint-action=exec='rm x'", "tar cf a -I 'rm x #' x"),
    *("split --f='rm x' x", "sed '1e rm x' x", "sed 's/.*/rm x/e' x", "awk 'BEGIN{print|\"rm x\"}'"),
    *("printf 'all:;rm x' | make -f -", "make -s --eval='all:;rm x'", "git grep --no-index -O'rm x #' y"),
    *("git ls-remote --upload-pack='rm x #' .", "python3 -c 'import os; os.remove(\"x\")'", "perl -e 'unlink \"x\"'"),
    *("printf 'import os; os.remove(\"x\")' | python3 /dev/stdin",),
]  # fmt: skip
"""Programs that are made to run others, which a rule on them may not allow either."""
NOT_TRIED = [
    *("sudo VAR=1 rm x", "sudo -nu bob -- env -S 'rm x'", "su bob -c 'rm x'", "su - bob --session-command 'rm x'"),
    *("doas -u bob rm x", "runuser -l bob -c 'rm x'", "chroot --userspec 1:1 / rm x", "csh -c 'rm x'"),
    *("gtimeout 5 rm x", "strace -f -o o rm x", "watch -n 1 'rm x'", "parallel ::: 'rm x'", "ssh -p 2 host rm x"),
    *("busybox sh -c 'rm x'", "tmux new -d 'rm x'", "/lib64/ld-linux-x86-64.so.2 /bin/rm x", "ionice -c 2 -n 1 rm x"),
    *("docker run -v a:b --name n -it image rm x", "docker --debug run image rm x", "kubectl exec -n a pod -- rm x"),
    *("npx -c 'rm;ls'", "uv --quiet run rm x", "uv run --with a --python 3.12 rm x", "conda run -n base rm x"),
    *("mise exec node@20 -- rm x", "ip netns exec a rm x"),
]  # fmt: skip
"""Lines whose programs need rights, a terminal or a service."""
ONLY_ASK = [
    *("fc -s rm", "enable -f ./y rm", "zsh -c '=rm x'", "LD_PRELOAD=./y ls", "socat EXEC:'rm x' -"),
    *("gcc -wrapper rm,x y.c", "rsync -e 'rm x' x h:y", "ssh -o ProxyCommand='rm x' h", "vim -c '!rm x'"),
    *("sort --compress-program='./y' x", "man -P 'rm x' ls", "su", "sudo -s", "nc -e /bin/sh h 1", "crontab f"),
    *("psql -c '\\! rm x'", "apt-get -o A=b update", "GIT_SSH_COMMAND='rm x' git fetch", "PAGER='rm x' man ls"),
    *("command $x y", "sudo $x ls", "gh alias set x '!rm x'", "CMD.EXE /c rm x", "npx -yc'rm x'"),
]  # fmt: skip
ORDINARY = [
    *("ls -la", "head -n 5 data.csv", "grep -rn 'rm x' src", "grep -v '^#' f | sort | uniq -c", "git status"),
    *("git diff HEAD~1 -- a.py", "git commit -m 'rm x; and more'", "python x.py --out y", "python -m pytest -q tests"),
    *("pip install pandas", "make clean test", "tar xzf a.tar.gz", "curl -s https://example.org/a.csv"),
    *("sed -e 's/a/b/g' f", "sed '/^$/d' f", "sort -k2 -n f", "find . -type f -newer a"),
    *("mkdir -p out && cp a.csv out/", "gcc -O2 -o a a.c"),
    *("uv pip install x", "docker ps -a", "jupyter nbconvert --to html a.ipynb", "ruff check --fix", "rsync -av a b"),
]  # fmt: skip
UNTOUCHED = [
    *("for f in *.csv; do wc -l $f; done", "export A=1; python x.py", "X=1 make", '[ -n "$x" ] || echo no'),
    *('if [ "$a" = b ]; then echo c; fi', "[[ -f a && $x == b* ]]", "while read -r a b; do echo $a; done < f"),
    *("set -euo pipefail; ls", "f() { local a=1; echo $a; }; f", "x=$(wc -l < f); echo $x", "echo ${x:-y} ${x%.csv}"),
    *("awk -F'|' '{print $1}' f", "env | grep A", "command -v rm", "time python x.py", "nohup python x.py &"),
    *("timeout 5 grep rm f", "xargs -n1 echo", "find . -name '*.pyc' -exec ls -l {} +", "sudo apt-get install x"),
    *("env A=1 python x.py", "bash -c 'echo \"$1\"' _ 'rm x'", "docker run -it --rm image ls", "bash -e x.sh"),
    *("IFS=, read -ra a < f", "trap - EXIT", "a=(1 2); echo ${a[@]} ${a[0]}", "echo $((1 + 2)) ${x:0:3}"),
]  # fmt: skip


def deletes(line: str, folder: Path) -> bool:
    """Whether Bash deletes the file `x` by a line."""
    (folder / "x").write_text("y\n")
    environment = {"PATH": os.environ["PATH"], "HOME": str(folder), "TERM": "dumb"}
    subprocess.run(
        [str(BASH), "-c", line], check=False, cwd=folder, env=environment, stdin=subprocess.DEVNULL,
        capture_output=True, timeout=60, start_new_session=True,
    )  # fmt: skip
    return not (folder / "x").exists()


@pytest.mark.skipif(BASH is None or sys.platform != "linux", reason="needs Bash and the programs of Linux")
@pytest.mark.parametrize("line", [*SEEN, *EVALUATED, *SET, *PROGRAMS])
def test_the_lines_that_are_stopped_would_delete_the_file(line: str, tmp_path: Path) -> None:
    names = re.findall(r"\b(?:git|make|perl|dash|script|flock|setsid|awk|split|python3|taskset)\b", line)
    if not all(shutil.which(name) for name in names):
        pytest.skip("needs a program that is not there")
    assert deletes(line, tmp_path)


@pytest.mark.parametrize("line", [*SEEN, *NOT_TRIED])
def test_a_denied_program_is_found_behind_the_words_of_others(line: str) -> None:
    assert judged(line, DENY_RM, "allow run_shell") == "deny"


@pytest.mark.parametrize("line", [*EVALUATED, *SET, *PROGRAMS, *ONLY_ASK])
def test_what_evaluates_texts_or_sets_what_runs_asks(line: str) -> None:
    assert judged(line, DENY_RM, "allow run_shell") != "allow"
    assert judged(line, DENY_RM.replace("deny", "ask"), default="allow") == "ask"


@pytest.mark.parametrize("line", [*SEEN, *EVALUATED, *SET, *PROGRAMS, *NOT_TRIED, *ONLY_ASK])
def test_no_rule_allows_programs_that_run_others(line: str) -> None:
    programs = {shlex.quote(word).strip("'\"") for word in re.findall(r"[\w./-]+", line)}
    rules = [f'allow run_shell where command matches "{name} *"' for name in programs if name not in ("echo", "rm")]
    assert judged(line, *rules) == "ask"


@pytest.mark.parametrize("line", ORDINARY)
def test_rules_allow_ordinary_lines(line: str) -> None:
    words = [piece.split() for piece in re.split(r"&&|\|", line)]
    rules = [
        f'allow run_shell where command matches "{" ".join(each[: 3 if "-m" in each else 1])} *"' for each in words
    ]
    assert judged(line, *rules) == "allow"
    assert judged(line, *rules, DENY_RM) == "allow"


@pytest.mark.parametrize("line", UNTOUCHED)
def test_a_rule_that_denies_a_program_leaves_other_lines_alone(line: str) -> None:
    assert judged(line, DENY_RM, "allow run_shell") == "allow"
