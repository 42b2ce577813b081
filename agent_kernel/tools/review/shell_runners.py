"""Follows the words of programs that run a command of their own words: `env`, `sudo`, `xargs`, `su -c`, `sh -c`.

One table says how each of them reads its own words, and one parser reads them as `getopt` does. An option that is not
in the table may take the next word or not, so both readings are followed.
"""

import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

from agent_kernel.tools.review.shell_lines import SimpleCommand, Word

Part = SimpleCommand | Word | None
"""What a command runs: another command, a line for a shell, or `None` for what can't be known."""
_Tail = Literal["words", "line", "first", "shell", "anywhere", "none"]


@dataclass(frozen=True, slots=True)
class _Runner:
    """How a program reads its words up to the command that it runs."""

    short: Mapping[str, str]
    long: Mapping[str, str]
    own: int = 0
    """The operands before the command, such as the seconds of `timeout`."""
    tail: _Tail = "words"
    """What follows: the words of the command; words that are joined to a line; a line in the first one; a user and the
    arguments of a shell; words of which any may begin the command; nothing that runs."""
    assigns: bool = False
    """Whether `NAME=value` may stand before the command."""
    opens: bool = False
    """Whether it opens a shell if no command follows."""


def _runner(
    options: str = "", own: int = 0, tail: _Tail = "words", *, assigns: bool = False, opens: bool = False
) -> _Runner:
    """`options` are the letters, then the long names, as for `getopt`: `:` takes a value, `::` one that is attached,
    `!` a line for a shell, `/` words that are split and read again, `%` a text that is replaced in the command (`%%`
    attached, or `{}`)."""
    letters, *names = options.split(" ")
    short = dict(re.findall(r"([^:!/%])(::|%%|[:!/%]|)", letters))
    long = {name.rstrip(":!/%"): name[len(name.rstrip(":!/%")) :] for name in names}
    return _Runner(short, long, own, tail, assigns, opens)


_DOCKER = _runner(
    "diPqta:c:e:h:l:m:p:u:v:w: rm init privileged interactive tty detach name: volume: env: env-file: network: user: "
    "workdir: gpus: mount: publish: platform: entrypoint! memory: cpus: hostname: label: add-host: shm-size: pull:",
    own=1,
)
_ENGINES = ("docker", "podman", "nerdctl", "docker compose", "docker-compose", "podman-compose")
_SHELL = _runner(
    "abefhiklmnprtuvxBCDEHPTcso:O: rcfile: init-file: command! init-command! login norc noprofile posix verbose"
)
_SU = _runner(
    "flmPpc!s:g:G:u:w: command! session-command! shell: group: supp-group: user: login", 0, "shell", opens=True
)
_PLAIN, _ANYWHERE = _runner(), _runner(tail="anywhere")
_RARELY_USED = (
    "bwrap", "firejail", "systemd-run", "systemd-inhibit", "systemd-cat", "tmux", "tmate", "screen", "byobu",
    "proot", "dbus-run-session", "dbus-launch", "xvfb-run", "xinit", "startx", "xterm", "urxvt", "st", "kitty",
    "foot", "konsole", "alacritty", "wezterm", "gnome-terminal", "x-terminal-emulator", "apptainer", "singularity",
    "nix", "nix-shell", "guix", "ld.so", "fakechroot", "machinectl", "lxc", "adb", "vagrant", "flatpak-spawn",
    "wsl", "cmd", "coproc", "choom", "grc", "multitime", "pexec", "setlock", "lckdo", "softlimit", "chpst",
    "s6-setuidgid", "daemonize", "daemon", "logsave", "sshpass", "ssh-agent", "mosh", "autossh", "pdsh", "clush",
    "torify", "envdir", "env-cmd", "cross-env", "dotenv", "pnpx", "ifne", "pee", "mispipe", "xe", "rush",
    "hyperfine", "watchexec", "nodemon", "reflex",
)  # fmt: skip
"""Programs whose options the table does not have: any of their words may begin the command."""
_LINE = _runner(tail="line")

_RUNNERS: Mapping[str, _Runner] = {
    "env": _runner("iv0u:C:S/a:P: ignore-environment null debug unset: chdir: split-string/ argv0:", assigns=True),
    "sudo": _runner(
        "AbBEeHiKklnNPSsvC:D:g:h:p:R:r:t:T:u:U: askpass background preserve-env login non-interactive set-home shell "
        "stdin chdir: close-from: group: host: prompt: chroot: role: type: command-timeout: user: other-user:",
        assigns=True,
        opens=True,
    ),
    "doas": _runner("Lnsa:C:u:", assigns=True, opens=True),
    "run": _runner("u:g:D: user: group: nice: chdir: setenv: unit: property: slice: background: machine:", opens=True),
    "pkexec": _runner(" user: disable-internal-agent keep-cwd", opens=True),
    **dict.fromkeys(("su", "runuser"), _SU),
    "sg": _runner("c!", 1, "line", opens=True),
    "gosu": _runner(own=1),
    "su-exec": _runner(own=1),
    "setpriv": _runner(
        "d clear-groups init-groups keep-groups nnp no-new-privs reset-env ambient-caps: inh-caps: bounding-set: ruid: "
        "euid: rgid: egid: reuid: regid: groups: securebits: pdeathsig: ptracer: selinux-label: apparmor-profile: "
        "landlock-access: landlock-rule: seccomp-filter:"
    ),
    "command": _runner("pvV"),
    "builtin": _PLAIN,
    "exec": _runner("cla:"),
    "time": _runner("pavqVf:o: portability append verbose quiet format: output:", assigns=True),
    "!": _runner(assigns=True),
    "eval": _LINE,
    "trap": _runner("lp", tail="first"),
    "mapfile": _runner("tC!c:d:n:O:s:u:", tail="none"),
    "complete": _runner("abcdefgjksuvprDEIC!F:W:G:X:P:S:A:o:", tail="none"),
    "nice": _runner("0123456789n: adjustment:"),
    **dict.fromkeys(("nohup", "setarch", "linux", "i386", "x86_64", "fakeroot", "unbuffer", "rlwrap"), _PLAIN),
    **dict.fromkeys(("busybox", "toybox", "torsocks", "tsocks", "proxychains", "mpirun", "mpiexec", "srun"), _PLAIN),
    **dict.fromkeys(("eatmydata", "dumb-init", "tini", "nocache", "chronic", "catchsegv"), _PLAIN),
    "timeout": _runner("fvpk:s: foreground verbose preserve-status kill-after: signal:", own=1),
    "faketime": _runner("mpf:", own=1),
    "stdbuf": _runner("i:o:e: input: output: error:"),
    "setsid": _runner("cfw ctty fork wait"),
    "ionice": _runner("tc:n:p:P:u: class: classdata: pid: pgid: uid: ignore"),
    "chrt": _runner("abdfimorRvpT:P:D: sched-runtime: sched-period: sched-deadline:", own=1),
    "taskset": _runner("apc all-tasks pid cpu-list", own=1),
    "numactl": _runner("aHsN:C:m:p:i:l physcpubind: cpunodebind: membind: interleave: preferred:"),
    "prlimit": _runner("p:o:c::d::f::m::n::s::t::u::v:: pid:"),
    "cpulimit": _runner("vzifkl:p:e:P:c: limit: pid: exe: path: cpu:"),
    "chroot": _runner(" userspec: groups: skip-chdir", own=1, opens=True),
    "unshare": _runner(
        "acfhimnprUuCTR:w:S:G:l: fork map-root-user map-current-user mount-proc root: wd: setuid: setgid: setgroups: "
        "propagation: map-user: map-group: map-users: map-groups: boottime: monotonic: load-interp:",
        opens=True,
    ),
    "nsenter": _runner("aFeZr::w::m::u::i::n::p::C::U::T::t:S:G:N:W: target: setuid: setgid: all", opens=True),
    "flock": _runner("ensuxoFw:E:c! timeout: wait: conflict-exit-code: command! shared exclusive nonblock", own=1),
    "script": _runner(
        "aefqtc!E:I:O:B:T:m:o: command! echo: log-in: log-out: log-io: log-timing: logging-format: quiet", 1, opens=True
    ),
    "watch": _runner("bcdegprtwxCfn:q:s: interval: equexit: shotsdir:", tail="line"),
    "entr": _runner("acdnprsxz", tail="line"),
    "xargs": _runner(
        "0oprtxa:d:E:e::I%i%%L:l::n:P:s: null no-run-if-empty verbose exit arg-file: delimiter: max-args: max-procs: "
        "max-chars: process-slot-var: replace%% eof:: max-lines::"
    ),
    "parallel": _runner("0kmuqvXta:d:E:I%j:L:n:N:P:S: jobs: arg-file: colsep: delay: joblog: results:", tail="line"),
    "strace": _runner("cCdDfFhiknNqrtTvVwxyYzZa:b:e:E:I:o:O:p:P:s:S:u:U:X:"),
    "ltrace": _runner("bcCfhiLrStTVa:A:D:e:F:l:n:o:p:s:u:w:x:"),
    "valgrind": _PLAIN,
    "perf": _runner("vh", own=1),
    "ssh": _runner("46AaCfGgKkMNnqsTtVvXxYyB:b:c:D:E:e:F:I:i:J:L:l:m:O:o:P:p:Q:R:S:W:w:", 1, "line"),
    "rsh": _runner("8dnEKxl:k:", 1, "line"),
    **dict.fromkeys(_RARELY_USED, _ANYWHERE),
    "npx": _runner("yqp:c! yes no quiet package: call!"),
    "bunx": _runner("p: bun package:"),
    "uvx": _runner("qvp: from: with: python: quiet"),
    **dict.fromkeys(("npm exec", "npm x", "pnpm exec", "yarn exec"), _runner("yqp:c! yes package: call! workspace:")),
    **dict.fromkeys(("pnpm dlx", "yarn dlx", "bun x", "bundle exec"), _runner("p:c package:")),
    "uv run": _runner(
        "qvmsp: quiet module script no-project no-sync frozen locked isolated active all-extras dev with: "
        "with-editable: with-requirements: python: project: directory: env-file: extra: group: package: cache-dir:"
    ),
    "uv tool run": _runner("qvp: from: with: python: quiet"),
    **dict.fromkeys((f"{name} run" for name in ("conda", "mamba", "micromamba")), _runner("vn:p: name: prefix: cwd:")),
    **dict.fromkeys((f"{name} run" for name in ("poetry", "pipenv", "pdm", "hatch", "rye", "pixi", "pipx")), _PLAIN),
    **dict.fromkeys((f"{name} exec" for name in ("mise", "asdf", "pyenv", "rbenv", "pixi", "tox", "bundler")), _PLAIN),
    **dict.fromkeys(("doppler run", "op run", "flatpak run", "snap run", "toolbox run"), _PLAIN),
    **dict.fromkeys(("direnv exec", "multipass exec", "buildah run", "distrobox enter"), _runner(own=1)),
    "py-spy record": _runner("o:d:r:f:p:"),
    **dict.fromkeys(("ip netns exec", "ip vrf exec"), _runner(own=1)),
    "git bisect run": _PLAIN,
    "git submodule foreach": _runner("q recursive quiet", tail="line"),
    **dict.fromkeys((f"{name} {verb}" for name in _ENGINES for verb in ("run", "exec")), _DOCKER),
    **dict.fromkeys(("kubectl exec", "oc exec"), _runner("itqn:c:f: stdin tty namespace: container: context:", own=1)),
}  # fmt: skip
"""By program, or by the words that introduce a command."""
_VERBS = frozenset(name.partition(" ")[0] for name in _RUNNERS if " " in name)
_POSIX = frozenset({"sh", "bash", "dash", "ash", "rbash"})
_SHELLS = _POSIX | {"zsh", "ksh", "mksh", "csh", "tcsh", "fish", "yash", "posh", "oksh", "nu", "xonsh", "elvish"}
_FINDERS = {
    "find": r"-(?:exec|ok)(?:dir)?",
    "fd": r"-[^-]*[xX]|--exec(?:-batch)?",
    "fdfind": r"-[^-]*[xX]|--exec(?:-batch)?",
}
_STREAM = re.compile(r"-|/dev/.*|/proc/.*")


def canonical(program: str) -> str:
    """The name by which the tables know a program: without capitals and version."""
    name = program.lower().removesuffix(".exe")
    if re.match(r"ld(?:[-.]|64).*so|ld-musl", name):
        return "ld.so"
    if name in ("gtimeout", "gfind", "gxargs", "genv", "gnice", "gnohup", "gstdbuf", "gsplit", "gsed", "gtar", "gsort"):
        return name[1:]
    return {"readarray": "mapfile", "compgen": "complete"}.get(name) or re.sub(r"(?<=[a-z]{2})-?\d[\d.]*$", "", name)


def is_shell(name: str) -> bool:
    """Whether a canonical name is that of a shell."""
    return name in _SHELLS


def introduces(command: SimpleCommand) -> int:
    """The number of leading words of a command that introduce another one, such as `uv run`; else 0."""
    texts = [canonical(command.program), *(word.text for word in command.words[1:3])]
    return next((count for count in (2, 3) if " ".join(texts[:count]) in _RUNNERS), 0)


def hides_verb(command: SimpleCommand) -> bool:
    """Whether options stand before words that may introduce a command: `docker --debug run`."""
    words = [word.text for word in command.words[1:]]
    if canonical(command.program) not in _VERBS or not words or not words[0].startswith("-"):
        return False
    last = {name.rpartition(" ")[2] for name in _RUNNERS if name.startswith(f"{canonical(command.program)} ")}
    return not last.isdisjoint(words)


def runs_words(command: SimpleCommand) -> bool:
    """Whether the program runs a command of its words, whatever they are."""
    return canonical(command.program) in _RUNNERS


def follow(command: SimpleCommand) -> Iterator[Part]:
    """What the words of a command make it run, besides its program."""
    name = canonical(command.program)
    if name in ("alias", "git"):
        mark = "=" if name == "alias" else "=!"
        yield from (replace(word, text=word.text.partition(mark)[2]) for word in command.words[1:] if mark in word.text)
    if name in _FINDERS:
        yield from _found(command.words, _FINDERS[name])
    elif name == "[":
        yield Word(f"test {command.words[-1].text.removesuffix(']')}")
    elif name in _SHELLS:
        yield from _of_shell(command.words, name)
    elif name in _RUNNERS:
        yield from _parts(command.words, 1, name)
    elif count := introduces(command):
        phrase = " ".join([name, *(word.text for word in command.words[1:count])])
        yield from _parts(command.words, count, phrase)
    elif hides_verb(command):
        yield None
        yield from (SimpleCommand(command.words[place:]) for place in range(2, len(command.words)))


def _parts(words: tuple[Word, ...], start: int, name: str) -> Iterator[Part]:
    runner = _RUNNERS[name]
    if runner.tail == "anywhere":
        yield None
        yield from (word for word in words[start:] if " " in word.text)
        yield from (SimpleCommand(words[place:]) for place in range(start, len(words)))
        return
    read = _read(words, start, runner)
    if not read.certain or (runner.opens and not read.starts and not read.lines):
        yield None
    yield from read.lines
    for place, split in read.splits:
        yield from _split(words[0], split, words[place:])
    if name == "command" and read.letters & {"v", "V"}:
        return
    for place in read.starts[:1] if runner.tail == "shell" else read.starts:
        rest = tuple(_filled(word, read.replaced) for word in words[place:])
        yield from _tail(runner, name, rest)


def _tail(runner: _Runner, name: str, rest: tuple[Word, ...]) -> Iterator[Part]:
    match runner.tail:
        case "line":
            yield _joined(rest)
            if name == "parallel":  # its inputs may be commands
                yield None
                yield from rest
        case "first":
            yield rest[0]
        case "shell":
            yield SimpleCommand(rest)
            arguments = rest[2:] if [word.text for word in rest[1:2]] == ["--"] else rest[1:]
            yield from _of_shell((Word("sh"), *arguments), "sh")
        case "words":
            yield SimpleCommand((*rest, Word("", fixed=False)) if name == "xargs" else rest)


def _of_shell(words: tuple[Word, ...], name: str) -> Iterator[Part]:
    """The line after `-c`; else a file is run, which is not followed, or what the shell reads."""
    read = _read(words, 1, _SHELL, detached=True)
    if not read.certain or name not in _POSIX:
        yield None
    yield from read.lines
    if "c" in read.letters:
        yield from (words[place] for place in read.starts)
    elif not read.lines:
        scripts = [words[place] for place in read.starts]
        if not scripts or "s" in read.letters or any(map(is_stream, scripts)):
            yield None


def is_stream(script: Word) -> bool:
    """Whether the code is not that of a file."""
    return not script.fixed or _STREAM.fullmatch(script.text) is not None


@dataclass(slots=True)
class _Read:
    """The own words of a program."""

    letters: set[str] = field(default_factory=set)
    """Its options of one letter that take no value."""
    lines: list[Word] = field(default_factory=list)
    splits: list[tuple[int, Word]] = field(default_factory=list)
    """Texts that are split to words, each with the place of the words that follow."""
    replaced: str | None = None
    starts: list[int] = field(default_factory=list)
    """Where the command may begin."""
    certain: bool = True
    """Whether all of the own words are fixed."""


class _Options:
    """Reads options by a runner's table."""

    def __init__(self, words: Sequence[Word], runner: _Runner, *, detached: bool) -> None:
        self._words, self._runner, self._detached = words, runner, detached
        self.read = _Read()
        self.unknown = 0
        """The options that may take the next word or not."""

    def take(self, place: int) -> int:
        """Read the option at a place. Returns the place after it and its values."""
        word = self._words[place]
        if word.text.startswith("--"):
            return self._long(place, word)
        after = place + 1
        for position, letter in enumerate(word.text[1:], 2):
            kind = self._runner.short.get(letter)
            if kind is None:
                self.unknown += 1
            elif not kind:
                self.read.letters.add(letter)
            elif self._detached:
                self.read.certain = self.read.certain and all(each.fixed for each in self._words[after : after + 1])
                after += 1
            else:
                return self._value(kind, replace(word, text=word.text[position:]), place)
        return after

    def _long(self, place: int, word: Word) -> int:
        name, equals, value = word.text[2:].partition("=")
        names = [name] if name in self._runner.long else [each for each in self._runner.long if each.startswith(name)]
        kinds = {self._runner.long[each] for each in names}
        if equals:
            for kind in kinds - {""}:
                self._value(kind, replace(word, text=value), place, attached=True)
            return place + 1
        if len(kinds) == 1:
            kind = kinds.pop()
            return self._value(kind, replace(word, text=""), place) if kind else place + 1
        self.unknown += 1
        for kind in kinds & {"!", "/"}:
            self._value(kind, replace(word, text=""), place)
        return place + 1

    def _value(self, kind: str, rest: Word, place: int, *, attached: bool = False) -> int:
        """Take an option's value, the rest of its word or the next one."""
        after = place + 1
        if not rest.text and not attached and kind not in ("::", "%%"):
            if after == len(self._words):
                return after
            rest = self._words[after]
            after += 1
        self.read.certain = self.read.certain and rest.fixed
        match kind:
            case "!":
                self.read.lines.append(rest)
            case "/":
                self.read.splits.append((after, rest))
            case "%" | "%%":
                self.read.replaced = rest.text or "{}"
            case _:
                pass
        return after


def _read(words: tuple[Word, ...], start: int, runner: _Runner, *, detached: bool = False) -> _Read:
    """Read a program's own words. `detached`: values are never attached to their options, as in shells."""
    options = _Options(words, runner, detached=detached)
    read = options.read
    place, operands, ended = start, 0, False
    while place < len(words):
        word = words[place]
        read.certain = read.certain and (word.fixed or operands >= runner.own)
        if word.text in ("-", "--"):
            ended = ended or word.text == "--"
            place += 1
        elif not ended and word.text.startswith(("-", "+") if detached else "-"):
            place = options.take(place)
        elif runner.assigns and "=" in word.text:
            place += 1
        else:
            if operands >= runner.own:
                read.starts.append(place)
                if operands >= runner.own + options.unknown and runner.tail != "shell":
                    break
            operands += 1
            place += 1
    return read


def assigned_by(command: SimpleCommand) -> Iterator[str]:
    """The names of variables that a runner's words set for the command that it runs."""
    runner = _RUNNERS.get(canonical(command.program))
    if runner is not None and runner.assigns:
        yield from (word.text.partition("=")[0] for word in command.words[1:] if "=" in word.text)


def _split(program: Word, text: Word, rest: tuple[Word, ...]) -> Iterator[Part]:
    """The words of `env -S`, which are read as if they had stood there."""
    if not text.fixed or re.search(r"[\\$#]", text.text):
        yield None
    try:
        words = shlex.split(text.text.replace(r"\_", " "))
    except ValueError:
        yield None
    else:
        yield SimpleCommand((program, *map(Word, words), *rest))


def _found(words: tuple[Word, ...], option: str) -> Iterator[Part]:
    """The commands of `find -exec`."""
    if not all(word.fixed for word in words):
        yield None
    for place, word in enumerate(words):
        if re.fullmatch(option, word.text[:20]):
            rest = words[place + 1 :]
            end = next((place for place, other in enumerate(rest) if other.text in (";", "+")), len(rest))
            if rest[:end]:
                yield SimpleCommand(tuple(_filled(each, "{}") for each in rest[:end]))


def _filled(word: Word, replaced: str | None) -> Word:
    return word if replaced is None or replaced not in word.text else replace(word, fixed=False)


def _joined(words: Sequence[Word]) -> Word:
    return Word(" ".join(word.text for word in words), all(word.fixed for word in words))
