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
    *("env - rm x", "env -S'rm x'", "env -S 'rm x'", "env --split-string='rm x'", "env --split='rm x'", "env -S rm x"),
    *("env --split-string 'rm x'", "env -S 'A=1 rm x'", "env -S 'sh -c \"rm x\"'", "env -vS 'rm x'", "env -- rm x"),
    *("env -S'env - rm' x", "env -S '-i A=1 /bin/rm' x", "env -u A -C . rm x", "env --unset=A -iS 'rm x'"),
    *("env a-b=1 rm x", "env -S 'bash -c' 'rm x'", "env --chdir . rm x", "eval -- rm x", "eval 'eval -- \"rm x\"'"),
    *("builtin eval -- rm x", "command -p -- rm x", "command eval 'rm x'", "exec -c /bin/rm x", "exec -la y rm x"),
    *("nice -5 rm x", "nice -n5 -- rm x", "nice --adjustment 5 rm x", "nohup -- rm x", "setsid -w rm x"),
    *("stdbuf -o L -e0 rm x", "stdbuf --output L rm x", "timeout -k 1 --signal KILL 5 rm x", "timeout -vs9 5 rm x"),
    *("timeout --kill 1 5 rm x", "flock -w 1 . rm x", "flock . -c 'rm x'", "flock . --command 'rm x'", "time -p rm x"),
    *("time -- rm x", "! time rm x", "time A=1 rm x", "coproc rm x; wait", "find . -name x -exec env - rm {} \\;"),
    *("find . -name x -execdir env -S 'rm x' {} +", "find . -name x -exec sh -c 'rm \"$1\"' _ {} +"),
    *("echo x | xargs -I{} env - rm {}", "echo x | xargs -i rm {}", "echo x | xargs --replace rm {}"),
    *("echo x | xargs -n1 sh -c 'rm \"$0\"'", "xargs -a <(echo x) rm", "echo x | xargs -L 1 -P 2 rm"),
    *("echo x | xargs -E y rm", "script -qc 'rm x' o", "script -q --command='rm x' o", "script -q --command 'rm x' o"),
    *("script o -qc 'rm x'", "script --comm='rm x' -q o", "bash -O extglob -c 'rm x'", "bash -co errexit 'rm x'"),
    *("bash --norc -o pipefail -c 'rm x'", "bash +e -c 'rm x'", "sh -c -- 'rm x'", "dash -ec 'rm x'"),
    *("bash -c 'rm \"$0\"' x", "trap -- 'rm x' EXIT", "trap 'rm x' 0", "trap 'rm x' ERR; false"),
    *("trap -- 'trap -- \"rm x\" EXIT' DEBUG; :", "mapfile -C 'rm x' -c 1 a <<< y"),
    *("mapfile -tC 'rm x #' -c1 a <<< y", "readarray -C 'rm x;:' -c 1 a <<< y", "compgen -C 'rm x' y"),
    *("git -c alias.y='!rm x' y",),
]  # fmt: skip
"""Lines in which `rm` is found."""
USES = [
    *("(( y ))", "echo $((y))", "echo $[y]", "[[ y -eq 0 ]]", "echo ${a[y]}", "z=abc; echo ${z:y}", "a[y]=1"),
    *("a=([y]=1)", "echo ${!y}", "for ((y;0;)); do :; done", "declare -i n=y", "let n=y", "a=(1 2); echo ${a[@]:y}"),
    *("cat <<< $((y))", ": ${z:=$((y))}", "a=y; echo ${a#$((y))}", "unset z; a=(1); unset a[y]"),
    *("z=abc; echo ${z:0:y}",),
]  # fmt: skip
EVALUATED = [
    *("test -v 'a[$(rm x)]'", "[ -v 'a[$(rm x)]' ]", "[[ -v 'a[$(rm x)]' ]]", "test ! -v 'a[$(rm x)]'"),
    *("o=-v; test $o 'a[$(rm x)]'", "o=-v; [ \"$o\" 'a[$(rm x)]' ]", "o='-v a[$(rm${IFS}x)]'; [ $o ]"),
    *("[ 1 = 1 -a -v 'a[$(rm x)]' ]", "[[ 'a[$(rm x)]' -eq 0 ]]", "printf -v 'a[$(rm x)]' y"),
    *("printf -va'[$(rm x)]' y", "o=-v; printf $o 'a[$(rm x)]' y", "n='a[$(rm x)]'; printf -v \"$n\" y"),
    *("read 'a[$(rm x)]' <<< y", "read -r b 'a[$(rm x)]' <<< 'y z'", "n='a[$(rm x)]'; read \"$n\" <<< y"),
    *("a=(1); unset -v 'a[$(rm x)]'", "declare 'a[$(rm x)]=1'", "typeset 'a[$(rm x)]=1'"),
    *("f() { local 'a[$(rm x)]=1'; }; f", "declare -a 'a=($(rm x))'", "declare -a 'a=([$(rm x)]=1)'"),
    *("a=(1); y='([$(rm x)]=1)'; declare a=$y", "y='($(rm x))'; readonly -a a=$y", "declare -i 'n=a[$(rm x)]'"),
    *("declare -n r='a[$(rm x)]'; r=1", "let 'a[$(rm x)]'", "exec {a['$(rm x)']}> f", ": {a['$(rm x)']}> f"),
    *("a=1; echo ${a['$(rm x)']}", "a[0]=1; a['$(rm x)']=2", "a=(1); echo ${#a['$(rm x)']}"),
    *("y='a[$'; y+='(rm x)]'; echo $((y))", "y='$(rm x)'; echo ${y@P}", "y='$(rm x)'; z=(\"$y\"); echo ${z[@]@P}"),
    *(f"y='a[$(rm x)]'; {use}" for use in USES),
]  # fmt: skip
"""Lines in which Bash evaluates a subscript or a value."""
SET = [
    *("printf -vPS4 '\\x24(rm x)'; set -x; :", "read -aPS4 <<< '$(rm${IFS}x)'; set -x; :"),
    *("PS4='$(rm x)'; set -x; :", "printf -v PS4 '\\x24(rm x)'; set -x; :", "read -r PS4 <<< '$(rm x)'; set -x; :"),
    *("declare PS4='$(rm x)'; set -x; :", "for PS4 in '$(rm x)'; do set -x; :; done"),
    *("unset PS4; : ${PS4:='$(rm x)'}; set -x; :", "BASH_ENV='$(rm x)' bash -c :", "env BASH_ENV='$(rm x)' bash -c :"),
    *("BASH_ENV=<(echo rm x) bash -c :", "export BASH_ENV='$(rm x)'; bash -c :", "ENV='$(rm x)' sh -i < /dev/null"),
    *("set -k; bash -c : BASH_ENV='$(rm x)'", "PROMPT_COMMAND='rm x' bash --norc -i <<< :"),
    *("PS1='$(rm x)' bash --norc -i <<< :", "hash -p /bin/rm y; y x", "shopt -s expand_aliases; alias y='r''m'\ny x"),
    *("printf '#!/bin/sh\\n/bin/rm x' > ls; chmod +x ls; PATH=. ls",),
    *("HOME=$PWD; echo rm x > .bash_profile; bash -lc :", "compgen -W '$(rm x)' y", "a=-exec; find x $a rm x \\;"),
    *("bash <(echo rm x)", "echo rm x | bash /dev/stdin", "echo rm x | bash -", "source <(echo rm x)"),
    *("coproc { rm x; }; wait", "echo rm x | bash -s -- y", "bash -c 'eval \"$1\"' _ 'rm x'"),
    *("coproc N { rm x; }; wait", "time { rm x; }", "env -S 'rm\\_x'", "y() { $1 x; }; y rm", 'set -- rm x; "$@"'),
    *("echo 'rm x' | xargs -d '\\n' sh -c", "echo rm x | xargs env"),
    *("GIT_EXTERNAL_DIFF='rm x #' git diff --no-index --ext-diff x /dev/null",),
]  # fmt: skip
"""Lines that set what a shell or a program runs, or hand a shell its code."""
PROGRAMS = [
    *("tar cf /dev/null x --checkpoint=1 --checkpoint-action=exec='rm x'",),
    *("tar cf a.tar x; tar xf a.tar --to-command='rm x'", "tar cf a -I 'rm x #' x", "split --filter='rm x' x"),
    *("split --f='rm x' x", "sed '1e rm x' x", "sed 's/.*/rm x/e' x", "sed -n 'p;e rm x' x"),
    *("awk 'BEGIN{system(\"rm x\")}'", "awk 'BEGIN{print|\"rm x\"}'", "awk 'BEGIN{\"rm x\"|getline}'"),
    *("printf 'all:;rm x' | make -f -", "make -s --eval='all:;rm x'", "printf 'a:;$(R)' > Makefile; make R='rm x'"),
    *("git -c protocol.ext.allow=always ls-remote 'ext::rm x'", "git grep --no-index -O'rm x #' y"),
    *("git ls-remote --upload-pack='rm x #' .", "python3 -c 'import os; os.remove(\"x\")'", "perl -e 'unlink \"x\"'"),
    *("printf 'import os; os.remove(\"x\")' | python3 /dev/stdin", "python3 <(echo 'import os; os.remove(\"x\")')"),
]  # fmt: skip
"""Programs that are made to run others, which a rule on them may not allow either."""
NOT_TRIED = [
    *("sudo env - rm x", "sudo VAR=1 rm x", "sudo -nu bob -- env -S 'rm x'", "sudo --user bob rm x"),
    *("sudo -u bob -s -- rm x", "su --command='rm x'", "su bob -c 'rm x'", "su - bob --session-command 'rm x'"),
    *("su bob -- -c 'rm x'", "doas -u bob rm x", "runuser -u bob -- rm x", "runuser -l bob -c 'rm x'"),
    *("setpriv --reuid 1 --clear-groups rm x", "chroot --userspec 1:1 / rm x", "unshare -rm --root / rm x"),
    *("nsenter -t 1 -m -- rm x", "script --command='rm x'", "csh -c 'rm x'", "gtimeout 5 rm x"),
    *("complete -C 'rm x' y", "perf stat -e cycles rm x", "perf record -- rm x", "strace -f -o o rm x", "ltrace rm x"),
    *("watch -n 1 'rm x'", "watch -xn1 rm x", "parallel rm ::: x", "parallel ::: 'rm x'", "ssh -p 2 host rm x"),
    *("busybox sh -c 'rm x'", "bwrap --ro-bind / / --dev /dev rm x", "systemd-run --user -p A=1 rm x"),
    *("tmux new -d 'rm x'", "firejail --noprofile rm x", "/lib64/ld-linux-x86-64.so.2 /bin/rm x", "chrt -o 0 rm x"),
    *("taskset -c 0 rm x", "ionice -c 2 -n 1 rm x", "entr -s 'rm x'", "docker run -v a:b --name n -it image rm x"),
    *("docker --debug run image rm x", "kubectl exec -n a pod -- rm x", "npx -c 'rm x'", "uv --quiet run rm x"),
    *("uv run --with a --python 3.12 rm x", "conda run -n base rm x", "ip netns exec a rm x", "xvfb-run -a rm x"),
]  # fmt: skip
"""Lines whose programs need rights, a terminal or a service."""
ONLY_ASK = [
    *("fc -s", "fc -s rm", "enable -f ./y rm", "bind -x '\"a\":rm x'", "zsh -c '=rm x'", "ksh -c '${ rm x; }'"),
    *("LD_PRELOAD=./y ls", "socat EXEC:'rm x' -", "gcc -wrapper rm,x y.c", "rsync -e 'rm x' x h:y"),
    *("ssh -o ProxyCommand='rm x' h", "vim -c '!rm x'", "ed x", "sort --compress-program='./y' x", "man -P 'rm x' ls"),
    *("sqlite3 a '.shell rm x'", "gdb -ex 'shell rm x'", "su", "sudo -s", "zip a x -TT 'rm x'", "nc -e /bin/sh h 1"),
    *("m4", "fish -C 'rm x' -c true", "psql -c '\\! rm x'", "tcpdump -z rm", "apt-get -o A=b update", "crontab f"),
    *("GIT_SSH_COMMAND='rm x' git fetch", "PAGER='rm x' man ls", "EDITOR='rm x' crontab -e", "command $x y"),
    *("sudo $x ls",),
    *("hg --config alias.y='!rm x' y", "docker-compose --verbose run s rm x", "hyperfine 'rm x'", "sshpass -p x rm y"),
    *("choom -n 0 -- rm x", "kitty rm x", "cross-env A=1 rm x", "gh alias set x '!rm x'"),
    *("restic --password-command='rm x' ls", "deno eval 'x'", "CMD.EXE /c rm x"),
]  # fmt: skip
ORDINARY = [
    *("ls -la", "cat data.csv", "head -n 5 data.csv", "wc -l a.py", "grep -rn 'rm x' src"),
    *("grep -v '^#' f | sort | uniq -c", "git status", "git log --oneline -5", "git diff HEAD~1 -- a.py"),
    *("git add -A", "git commit -m 'rm x; and more'", "git push -u origin main", "python x.py --out y"),
    *("python -m pytest -q tests", "pytest -q -k 'a or b'", "pip install pandas", "pip list", "make"),
    *("make clean test", "tar tf a.tar", "tar xzf a.tar.gz", "curl -s https://example.org/a.csv", "sed -n 1,5p f"),
    *("sed -e 's/a/b/g' f", "sed '/^$/d' f", "sed -i.bak 's|/a|/b|' f", "sort -u f", "sort -k2 -n f"),
    *("find . -name '*.py'", "find . -type f -newer a", "du -sh data", "df -h", "mkdir -p out && cp a.csv out/"),
    *("echo done", "printf '%s\\n' a", "jq .a f.json", "ps aux | grep python", "nvidia-smi", "which python"),
    *("uv pip install x", "conda list", "npm test", "docker ps -a", "docker build -t a ."),
    *("jupyter nbconvert --to html a.ipynb", "diff a b", "ruff check --fix", "mypy src", "gcc -O2 -o a a.c"),
    *("rsync -av a b", "cut -d, -f1 f | sort | uniq", "tr a b", "xz -d a.xz", "date +%F"),
]  # fmt: skip
UNTOUCHED = [
    *("for f in *.csv; do wc -l $f; done", "export A=1; python x.py", "X=1 make", "[ -f a ] && cat a"),
    *('[ -n "$x" ] || echo no', 'if [ "$a" = b ]; then echo c; fi', "test -d out || mkdir out"),
    *("[[ -f a && $x == b* ]]", "while read -r a b; do echo $a; done < f", "set -euo pipefail; ls", "unset A"),
    *("read x", "f() { local a=1; echo $a; }; f", "x=$(wc -l < f); echo $x", "echo ${x:-y} ${x%.csv}"),
    *("awk -F'|' '{print $1}' f", "awk '{s += $1} END {print s}' f", "env | grep A", "command -v rm"),
    *("time python x.py", "nohup python x.py &", "timeout 60 python x.py", "xargs -n1 echo"),
    *("find . -name '*.pyc' -exec ls -l {} +", "sudo apt-get install x", "env A=1 python x.py"),
    *("sudo -u bob echo rm x", "timeout 5 grep rm f", "bash -c 'echo \"$1\"' _ 'rm x'", "nice -n 5 echo rm"),
    *("xargs -I{} cp {} out", "printf '%s\\n' \"$x\"", "uv run --with rm python x.py", "docker run -it --rm image ls"),
    *('while IFS= read -r line; do echo "$line"; done < f', "IFS=, read -ra a < f"),
    *("trap - EXIT", "a=(1 2 3); echo ${a[@]} ${a[0]}", "echo $((1 + 2)) ${x:0:3}"),
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
