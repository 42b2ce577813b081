"""Follows the words of programs that run a command of their own words: `env`, `sudo`, `xargs`, `su -c`, `sh -c`.

The options of these programs are not known: each of them may take the next word or not. So every word that may begin
the command is followed, up to the first that has to.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from agent_kernel.tools.review.shell_lines import SimpleCommand, Word

Part = SimpleCommand | Word | None
"""What a command runs: another command, a line for a shell, or `None` for what can't be known."""


def _named(own: int, names: str) -> dict[str, int]:
    return dict.fromkeys(re.split(r"\s*,\s*", names.strip()), own)


_RUNNERS: Mapping[str, int] = {
    **_named(
        0,
        "env, sudo, doas, command, builtin, exec, time, !, nice, nohup, setsid, stdbuf, ionice, numactl, unbuffer, "
        "fakeroot, eatmydata, xargs, eval, watch, npx, bunx, uvx, npm exec, npm x, pnpm exec, pnpm dlx, "
        "yarn exec, yarn dlx, bun x, bundle exec, uv run, uv tool run, conda run, mamba run, micromamba run, "
        "poetry run, pipenv run, pdm run, hatch run, rye run, pixi run, pixi exec, pipx run, pyenv exec, "
        "git bisect run, git submodule foreach",
    ),
    **_named(1, "timeout, chrt, taskset, setarch, flock, ssh, rsh, kubectl exec, oc exec, direnv exec, mise exec"),
    **_named(1, "docker run, docker exec, podman run, podman exec, docker compose run, docker compose exec"),
    **_named(1, "docker-compose run, docker-compose exec"),
}
"""The words before the command, such as the seconds of `timeout`, by program or by the words that introduce one."""
_UNREAD = frozenset(
    _named(
        0,
        "su, runuser, run, pkexec, sg, gosu, su-exec, setpriv, chroot, unshare, nsenter, prlimit, cpulimit, script, "
        "entr, parallel, strace, ltrace, valgrind, perf, busybox, toybox, faketime, rlwrap, torsocks, tsocks, torify, "
        "proxychains, mpirun, mpiexec, srun, dumb-init, tini, chronic, linux, i386, x86_64, bwrap, firejail, "
        "systemd-run, systemd-inhibit, tmux, screen, byobu, proot, dbus-run-session, dbus-launch, xvfb-run, xinit, "
        "startx, xterm, urxvt, kitty, foot, konsole, alacritty, wezterm, gnome-terminal, x-terminal-emulator, "
        "apptainer, singularity, nix, nix-shell, guix, ld.so, machinectl, lxc, adb, vagrant, flatpak-spawn, wsl, cmd, "
        "coproc, choom, grc, setlock, softlimit, chpst, daemonize, daemon, sshpass, ssh-agent, mosh, autossh, pdsh, "
        "envdir, env-cmd, cross-env, dotenv, pnpx, ifne, pee, mispipe, hyperfine, watchexec, nodemon, reflex, "
        "nerdctl run, nerdctl exec, podman-compose run, podman-compose exec, ip netns exec, ip vrf exec, asdf exec, "
        "rbenv exec, tox exec, doppler run, op run, flatpak run, snap run, toolbox run, multipass exec, buildah run, "
        "distrobox enter, py-spy record",
    )
)
"""Those of which any word may begin the command, and more may run than is seen."""
_JOINING = frozenset({"eval", "watch", "ssh", "rsh", "git submodule foreach"})
"""Those that join the words of the command to a line for a shell."""
_VERBS = frozenset(name.partition(" ")[0] for name in (*_RUNNERS, *_UNREAD) if " " in name)
_MORE_RUNS: Mapping[str, str] = {
    "env": r"-[^-]*S.*|--s.*",
    **dict.fromkeys(("sudo", "doas"), r"-[^-]*[si].*|--(?:s|l).*"),
    "xargs": r"-[^-]*[IiJ].*|--r.*",
}
"""Options by which they run more than the words that follow: a shell, or what comes on standard input."""
_POSIX = frozenset({"sh", "bash", "dash", "ash", "rbash"})
_SHELLS = _POSIX | {"zsh", "ksh", "mksh", "csh", "tcsh", "fish", "yash", "posh", "oksh", "nu", "xonsh", "elvish"}
_OF_SCRIPTS = re.compile(r"[-+][abefhkmnptuvxBCEHPT]+")
"""Options of a shell with which it runs the file that follows, and nothing else."""
_FINDERS = {"find": r"-(?:exec|ok)(?:dir)?", **dict.fromkeys(("fd", "fdfind"), r"-[^-]*[xX]|--exec(?:-batch)?")}
_STREAM = re.compile(r"-|/dev/.*|/proc/.*")
_LIKE_A_LINE = re.compile(r"[^\w./:=@%+,~^-]")
_OF_COREUTILS = frozenset({"gtimeout", "gfind", "gxargs", "genv", "gnice", "gnohup", "gstdbuf", "gsplit", "gsed"})


def canonical(program: str) -> str:
    """The name by which the tables know a program: without capitals and version."""
    name = program.lower().removesuffix(".exe")
    if re.match(r"ld(?:[-.]|64).*so|ld-musl", name):
        return "ld.so"
    return name[1:] if name in _OF_COREUTILS else re.sub(r"(?<=[a-z]{2})-?\d[\d.]*$", "", name)


def is_shell(name: str) -> bool:
    """Whether a canonical name is that of a shell."""
    return name in _SHELLS


def is_stream(script: Word) -> bool:
    """Whether the code is not that of a file."""
    return not script.fixed or _STREAM.fullmatch(script.text) is not None


def introduces(command: SimpleCommand) -> int:
    """The number of leading words of a command that introduce another one, such as `uv run`; else 0."""
    texts = [canonical(command.program), *(word.text for word in command.words[1:3])]
    phrases = {count: " ".join(texts[:count]) for count in (2, 3)}
    return next((count for count, phrase in phrases.items() if phrase in _RUNNERS or phrase in _UNREAD), 0)


def hides_verb(command: SimpleCommand) -> bool:
    """Whether options stand before words that may introduce a command: `docker --debug run`."""
    name, words = canonical(command.program), [word.text for word in command.words[1:]]
    if name not in _VERBS or not words or not words[0].startswith("-"):
        return False
    last = {phrase.rpartition(" ")[2] for phrase in (*_RUNNERS, *_UNREAD) if phrase.startswith(f"{name} ")}
    return not last.isdisjoint(words)


def runs_words(command: SimpleCommand) -> bool:
    """Whether the program runs a command of its words, whatever they are."""
    name = canonical(command.program)
    return name in _RUNNERS or name in _UNREAD


def follow(command: SimpleCommand) -> Iterator[Part]:
    """What the words of a command make it run, besides its program."""
    name, words = canonical(command.program), command.words
    if name in ("alias", "git"):
        mark = "=" if name == "alias" else "=!"
        yield from (replace(word, text=word.text.partition(mark)[2]) for word in words[1:] if mark in word.text)
    if name == "trap":
        yield from words[1:]
    elif name in _FINDERS:
        yield from _found(words, _FINDERS[name])
    elif name == "[":
        yield Word(f"test {words[-1].text.removesuffix(']')}")
    elif name in _SHELLS:
        yield from _of_shell(words, name)
    elif count := introduces(command):
        yield from _run(words, count, " ".join([name, *(word.text for word in words[1:count])]))
    elif runs_words(command):
        yield from _run(words, 1, name)
    elif hides_verb(command):
        yield from _anything(words, 2)


def _run(words: tuple[Word, ...], start: int, name: str) -> Iterator[Part]:
    if name in _UNREAD:
        yield from _anything(words, start)
        return
    if name == "command" and re.fullmatch("-[pvV]*[vV][pvV]*", "".join(word.text for word in words[1:2])):
        return  # it only says what a name is
    starts = list(_starts(words, start, _RUNNERS[name]))
    own = words[start : starts[-1] + 1 if starts else len(words)]
    options = [word.text for word in own if word.text.startswith("-")]
    more = _MORE_RUNS.get(name, "(?!)")
    if not all(word.fixed for word in own) or any(
        _LIKE_A_LINE.search(option) or re.fullmatch(more, option[:20]) for option in options
    ):
        yield None
    # `env -S` reads a text as if its words had stood there.
    yield from (Word(f"env {line}" if name == "env" else line, word.fixed) for word in own for line in _lines_in(word))
    for place in starts:
        rest = words[place:]
        if name in _JOINING:
            yield Word(" ".join(word.text for word in rest), all(word.fixed for word in rest))
        else:
            yield SimpleCommand((*rest, Word("", fixed=False)) if name == "xargs" else rest)


def _starts(words: Sequence[Word], start: int, own: int) -> Iterator[int]:
    """Where the command may begin: each option may take one word, and `own` words stand before it."""
    left = own
    for place in range(start, len(words)):
        text = words[place].text
        if text.startswith(("-", "+")):
            left += 1
            continue
        yield place
        if "=" not in text:  # else it may set a variable
            if left == 0:
                return
            left -= 1


def _lines_in(word: Word) -> Iterator[str]:
    """What may be a line in a word: itself, or the value of an option (`-c'rm x'`, `--command='rm x'`)."""
    text = word.text
    texts = [text] if not text.startswith("-") else [text[2:], text.partition("=")[2]]
    yield from (each for each in texts if _LIKE_A_LINE.search(each))


def _anything(words: tuple[Word, ...], start: int) -> Iterator[Part]:
    """A command may begin at each word, and something else may run."""
    yield None
    yield from (Word(line, word.fixed) for word in words[start:] for line in _lines_in(word))
    yield from (SimpleCommand(words[place:]) for place in range(start, len(words)))


def _of_shell(words: tuple[Word, ...], name: str) -> Iterator[Part]:
    """The line after `-c`; else a file is run, which is not followed, or what the shell reads."""
    if name not in _POSIX:
        yield None
    if any(re.match(r"-[^-]*c", word.text) for word in words[1:]):
        starts = list(_starts(words, 1, 0))
        options = words[1 : starts[0] if starts else None]
        if not all(word.fixed and not re.match(r"-$|-[^-]*s", word.text) for word in options):
            yield None
        yield from (words[place] for place in starts)
        return
    script = next((word for word in words[1:] if not _OF_SCRIPTS.fullmatch(word.text)), None)
    if script is None or script.text.startswith(("-", "+")) or is_stream(script):
        yield None


def assigned_by(command: SimpleCommand) -> Iterator[str]:
    """The names of variables that a runner's words set for the command that it runs."""
    if runs_words(command):
        yield from (word.text.partition("=")[0] for word in command.words[1:] if "=" in word.text)


def _found(words: tuple[Word, ...], option: str) -> Iterator[Part]:
    """The commands of `find -exec`."""
    if not all(word.fixed for word in words):
        yield None
    for place, word in enumerate(words):
        if re.fullmatch(option, word.text[:20]):
            rest = words[place + 1 :]
            end = next((place for place, other in enumerate(rest) if other.text in (";", "+")), len(rest))
            if rest[:end]:
                yield SimpleCommand(tuple(replace(each, fixed="{}" not in each.text) for each in rest[:end]))
