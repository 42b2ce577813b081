"""Tables of Python functions, methods and magics with effects that a person should know before approving a call.

Names are full (`os.remove`), and `X()` is the result of a call of `X`. The tables are checked against the lists of
bandit and ruff, as far as those name what can't be undone or reaches beyond the notebook.
"""

import re
from collections.abc import Iterator
from typing import NamedTuple

from agent_kernel.tools.review.findings import Effect


class Does(NamedTuple):
    effect: Effect
    position: int
    """The position of the argument that it acts on."""


def words(text: str) -> frozenset[str]:
    return frozenset(text.split())


def _named(lines: str) -> Iterator[str]:
    """Full names from lines that each have a module and names in it."""
    for line in lines.strip().split("\n"):
        module, *names = line.split()
        yield from (name if module == "builtins" else f"{module}.{name}" for name in names)


def _functions(*tables: dict[Effect, str]) -> dict[str, tuple[Does, ...]]:
    """Effects by full name, from the names of the functions that act on their first argument, on their second, ..."""
    found: dict[str, tuple[Does, ...]] = {}
    for position, table in enumerate(tables):
        for effect, lines in table.items():
            for name in _named(lines):
                found[name] = (*found.get(name, ()), Does(effect, position))
    return found


_ON_THE_FIRST: dict[Effect, str] = {
    "Deletes files:": """
        os remove unlink rmdir removedirs
        shutil rmtree
        pathlib.Path unlink rmdir
        send2trash send2trash
    """,
    "Runs shell commands:": """
        os system popen startfile posix_spawn posix_spawnp execl execle execlp execlpe execv execve execvp execvpe
        subprocess run call check_call check_output Popen getoutput getstatusoutput
        asyncio create_subprocess_shell create_subprocess_exec
        pty spawn
        pexpect spawn run
        get_ipython() system getoutput system_raw system_piped
    """,
    "Writes files:": """
        os mkdir makedirs truncate ftruncate mkfifo utime
        shutil make_archive
        pathlib.Path write_text write_bytes touch mkdir rename replace symlink_to hardlink_to
        numpy save savez savez_compressed savetxt
        pandas ExcelWriter
        matplotlib.pyplot savefig imsave
        cv2 imwrite
        shelve open
        logging FileHandler
    """,
    "Changes permissions:": """
        os chmod chown lchmod lchown fchmod fchown
        shutil chown copymode copystat
        pathlib.Path chmod lchmod
    """,
    "Uses the network:": """
        urllib urlopen urlretrieve
        webbrowser open open_new open_new_tab
        ssl _create_unverified_context
        flask.Flask() run
        logging.config listen
        torch.hub load download_url_to_file load_state_dict_from_url
        datasets load_dataset
        seaborn load_dataset
        nltk download
        spacy.cli download
        yfinance download Ticker
        wget download
        IPython.display IFrame YouTubeVideo
        pymongo MongoClient
        psycopg2 connect
        redis Redis from_url
        wandb init login
    """,
    "Runs code it builds:": """
        builtins exec eval compile __import__
        importlib import_module __import__
        importlib.util module_from_spec spec_from_file_location
        runpy run_path run_module
        code InteractiveInterpreter InteractiveConsole interact
        types FunctionType CodeType
        marshal load loads
        torch.hub load
        get_ipython() run_cell run_cell_async run_code ex ev safe_execfile
    """,
    "Loads data that may run code:": """
        pickle load loads Unpickler
        dill load loads Unpickler load_session
        cloudpickle load loads
        joblib load
        pandas read_pickle
        torch load
        shelve open
        marshal load loads
        yaml load load_all unsafe_load unsafe_load_all full_load full_load_all
        keras.models load_model
        tensorflow.keras.models load_model
    """,
    "Loads native code:": """
        ctypes CDLL PyDLL WinDLL memmove memset string_at pythonapi
        cffi.FFI() dlopen verify
        torch.utils.cpp_extension load load_inline
    """,
    "Installs packages:": """
        pip main
        micropip install
        ensurepip bootstrap
        spacy.cli download
    """,
    "Stops processes:": """
        os kill killpg abort _exit
        builtins exit quit
        signal raise_signal pthread_kill
    """,
    "Changes the kernel:": """
        os chdir fchdir chroot putenv unsetenv umask setuid setgid nice fork dup2 close closerange
        os.environ update pop popitem setdefault clear
        signal signal
        atexit register unregister
        sys settrace setprofile addaudithook
        dotenv load_dotenv
        globals() clear update setdefault
    """,
    "Deletes variables:": """
        globals() pop popitem
        get_ipython() reset reset_selective del_var drop_by_id
    """,
    "Reads secrets:": """
        keyring get_password get_credential
        dotenv load_dotenv dotenv_values
        google.colab userdata
        google.colab.userdata get
        os environ environb
        os.environ copy items values
    """,
    "Shows HTML or script:": """
        IPython.display HTML SVG Javascript IFrame display_html display_svg display_javascript
        ipywidgets HTML
    """,
}
_ON_THE_SECOND: dict[Effect, str] = {
    "Runs shell commands:": """
        os spawnl spawnle spawnlp spawnlpe spawnv spawnve spawnvp spawnvpe
    """,
    "Writes files:": """
        os rename renames replace link symlink
        shutil copy copy2 copyfile copytree move unpack_archive
        joblib dump
        torch save
        urllib.request urlretrieve
    """,
}
FUNCTIONS = _functions(_ON_THE_FIRST, _ON_THE_SECOND)
"""Effects by full name. Merely reading one of these counts too, because it may be called later by another name."""

MODULES: dict[str, Effect] = {
    **dict.fromkeys(("sh", "plumbum"), "Runs shell commands:"),
    **dict.fromkeys(("ctypes.cdll", "ctypes.windll", "ctypes.pydll"), "Loads native code:"),
    **dict.fromkeys(
        words("""
        requests httpx aiohttp urllib3 urllib.request httplib2 http.client http.server pycurl socket socketserver
        ftplib smtplib poplib imaplib telnetlib xmlrpc.client xmlrpc.server websocket websockets paramiko pysftp fabric
        asyncssh zmq grpc kafka pika boto3 botocore google.cloud google.generativeai azure.storage gcsfs s3fs
        huggingface_hub openai anthropic cohere kaggle dropbox github slack_sdk twilio tweepy praw
        selenium playwright.sync_api playwright.async_api pyngrok
        """),
        "Uses the network:",
    ),
}
"""Effects of all calls into these modules and on their clients."""

HARMLESS = frozenset(
    _named("""
    socket gethostname
    urllib.request quote unquote pathname2url url2pathname Request
    requests.utils quote unquote
    requests.adapters HTTPAdapter
    httpx Timeout URL Limits
    aiohttp ClientTimeout
    urllib3 Retry Timeout disable_warnings
    """)
)
"""Exceptions in those modules, without effects."""

OPENERS: dict[str, tuple[int, str]] = {
    **dict.fromkeys(
        words("""
        open codecs.open os.fdopen smart_open.open io.FileIO pathlib.Path.open gzip.open bz2.open lzma.open
        zipfile.ZipFile tarfile.open wave.open h5py.File fsspec.open soundfile.SoundFile
        """),
        (1, "r"),
    ),
    "os.open": (1, "w"),
    **dict.fromkeys(("pandas.HDFStore", "zarr.open"), (1, "a")),
    "numpy.memmap": (2, "r+"),
    "numpy.lib.format.open_memmap": (1, "r+"),
}
"""Functions that write depending on their mode: the position of the mode, and its default."""

WRITERS = words("""
    to_csv to_parquet to_excel to_json to_pickle to_feather to_hdf to_html to_latex to_markdown to_stata to_xml
    to_netcdf to_zarr to_file tofile write_csv write_parquet write_json write_excel write_delta savefig imsave
    write_image write_html save save_model save_pretrained save_weights saveAsTextFile
    """)
"""Methods whose first argument is the file to write. Without it, several of them only return the text."""

METHODS: dict[str, Effect] = {
    "extractall": "Writes files:",
    "rm": "Deletes files:",
    "to_sql": "Changes a database:",
    "exec_command": "Runs shell commands:",
    **dict.fromkeys(words("terminate kill send_signal"), "Stops processes:"),
    **dict.fromkeys(words("from_pretrained push_to_hub upload_file upload_folder"), "Uses the network:"),
    **dict.fromkeys(
        words("""
        insert_one insert_many update_one update_many replace_one delete_one delete_many bulk_write drop_database
        drop_collection drop_all create_all flushall flushdb saveAsTable insertInto
        """),
        "Changes a database:",
    ),
}
"""Effects of methods of any object, because hardly anything else has methods of these names."""

MENTIONED: dict[str, Effect] = {
    **dict.fromkeys(words("unlink rmdir rmtree"), "Deletes files:"),
    **dict.fromkeys(words("write_text write_bytes extractall"), "Writes files:"),
}
"""Methods that count even if they are not called."""

PATH_EFFECTS: dict[str, Effect] = {
    **dict.fromkeys(words("write_text write_bytes touch mkdir symlink_to hardlink_to"), "Writes files:"),
    **dict.fromkeys(words("unlink rmdir"), "Deletes files:"),
    **dict.fromkeys(words("chmod lchmod"), "Changes permissions:"),
}
"""Effects of methods of paths on the path."""

REMOTE_DELETE = re.compile(
    r"(?:delete|terminate|destroy|purge)_(?:object|bucket|blob|table|dataset|item|instance|stack|function|queue|topic|"
    r"user|role|cluster|volume|repo|file|folder|secret|key|db|job|model|endpoint|branch|index|collection|database)\w*"
)
REMOTE_THING = re.compile(r"(?i)bucket|blob|container|object|s3|client|repo|instance|stack|cluster|storage|gcs|dataset")
"""Names of objects whose bare `.delete()` deletes something outside of this kernel."""

REMOTE = tuple(
    f"{scheme}://" for scheme in ("http", "https", "ftp", "sftp", "s3", "s3a", "gs", "gcs", "az", "abfs", "hf")
)
TAKES_ADDRESSES_AS_TEXT = words("""
    print display Markdown HTML urlparse urljoin urlsplit quote unquote startswith endswith replace split rsplit strip
    lstrip rstrip removeprefix removesuffix join format partition rpartition encode find index count match fullmatch
    search sub compile findall append add insert extend get setdefault mount Request isinstance len str repr list dict
    set tuple array Series DataFrame text annotate title suptitle set_title figtext xlabel ylabel write
    debug info warn warning error ValueError RuntimeError
    """)
"""Functions and methods that process an address without connecting to it."""

CORE_MODULES = words("os sys builtins subprocess shutil socket ssl io pathlib importlib")
"""Modules whose attributes affect all other code when they are set."""

SAME: dict[str, str] = {
    "posix": "os",
    "nt": "os",
    "__builtins__": "builtins",
    "io.open": "open",
    "os.environ.get": "os.getenv",
    "huggingface_hub.HfApi()": "huggingface_hub",
    "IPython.get_ipython": "get_ipython",
}
"""Aliases of the names in the tables."""

CONVENTIONS: dict[str, str] = {
    "np": "numpy",
    "pd": "pandas",
    "plt": "matplotlib.pyplot",
    "sns": "seaborn",
    "tf": "tensorflow",
    "sp": "subprocess",
    "yf": "yfinance",
    "widgets": "ipywidgets",
    **{
        full.rpartition(".")[2]: full
        for full in words("""
        pathlib.Path shutil.rmtree shutil.copytree shutil.copyfile os.environ os.getenv subprocess.Popen
        subprocess.check_call subprocess.check_output urllib.request.urlopen urllib.request.urlretrieve
        importlib.import_module pandas.read_pickle zipfile.ZipFile dotenv.load_dotenv datasets.load_dataset
        IPython.display.HTML IPython.display.Javascript IPython.display.IFrame
        """)
    },
}
"""Usual meanings of names that an earlier cell may have imported."""

SHELL_MAGICS = words("sx system sc sh bash script ! cmd")
"""Magics that run their line or cell in a shell."""
COMMAND_MAGICS = words("rm mv cp mkdir rmdir pip conda mamba micromamba uv")
"""Magics that are themselves a shell command."""
MAGICS: dict[str, Effect] = {
    **dict.fromkeys(words("alias perl ruby R julia node python python2 python3"), "Runs shell commands:"),
    **dict.fromkeys(words("run load loadpy macro rerun recall edit"), "Runs code it builds:"),
    **dict.fromkeys(words("writefile file save logstart notebook store"), "Writes files:"),
    **dict.fromkeys(words("javascript js html HTML svg SVG"), "Shows HTML or script:"),
    "cython": "Loads native code:",
    **dict.fromkeys(words("reset reset_selective xdel"), "Deletes variables:"),
    **dict.fromkeys(words("cd pushd popd"), "Changes the kernel:"),
    "pastebin": "Uses the network:",
    "killbgscripts": "Stops processes:",
}
HARMLESS_MAGICS = words("""
    matplotlib config autoreload aimport load_ext reload_ext unload_ext who who_ls whos pwd precision pdb pprint xmode
    colors autosave automagic lsmagic magic quickref pdef pdoc pfile pinfo pinfo2 psearch psource pycat gui dirs
    history tb logstop latex markdown tensorboard profile clear agent ls cat ll less more man pylab
    """)
