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
        distutils.dir_util remove_tree
        tensorflow.io.gfile remove rmtree
    """,
    "Runs shell commands:": """
        os system popen popen2 popen3 popen4 startfile posix_spawn posix_spawnp
        os execl execle execlp execlpe execv execve execvp execvpe
        subprocess run call check_call check_output Popen getoutput getstatusoutput
        asyncio create_subprocess_shell create_subprocess_exec
        asyncio.subprocess create_subprocess_shell create_subprocess_exec
        commands getoutput getstatusoutput
        popen2 popen2 popen3 popen4 Popen3 Popen4
        pty spawn
        pexpect spawn spawnu run
        pexpect.popen_spawn PopenSpawn
        invoke run
        fabric.Connection() run local sudo
        get_ipython() system getoutput system_raw system_piped
        IPython.utils.process system getoutput
    """,
    "Writes files:": """
        os mkdir makedirs truncate ftruncate mknod mkfifo utime
        shutil make_archive
        tarfile.open() extract
        zipfile.ZipFile() extract
        pathlib.Path write_text write_bytes touch mkdir rename replace symlink_to hardlink_to
        pathlib.Path() rename replace
        numpy save savez savez_compressed savetxt
        pandas ExcelWriter
        matplotlib.pyplot savefig imsave
        cv2 imwrite
        imageio imwrite imsave mimsave
        imageio.v3 imwrite
        skimage.io imsave
        scipy.io savemat
        scipy.io.wavfile write
        soundfile write
        shelve open
        logging FileHandler
        logging.handlers RotatingFileHandler TimedRotatingFileHandler
        tensorflow.keras.preprocessing.image save_img
        tensorflow.io write_file
    """,
    "Changes permissions:": """
        os chmod chown lchmod lchown fchmod fchown
        shutil chown copymode copystat
        pathlib.Path chmod lchmod
    """,
    "Uses the network:": """
        requests get post put patch delete head options
        httpx get post put patch delete head
        urllib.request urlopen urlretrieve
        urllib urlopen urlretrieve
        webbrowser open open_new open_new_tab
        asyncio open_connection start_server
        ssl _create_unverified_context
        uvicorn run
        flask.Flask() run
        dash.Dash() run run_server
        wsgiref.simple_server make_server
        logging.config listen
        xmlrpc.client ServerProxy
        torch.hub load download_url_to_file load_state_dict_from_url
        torch.utils.model_zoo load_url
        transformers pipeline
        datasets load_dataset
        seaborn load_dataset
        sklearn.datasets fetch_openml fetch_california_housing fetch_20newsgroups fetch_covtype fetch_lfw_people
        sklearn.datasets fetch_olivetti_faces fetch_kddcup99 fetch_rcv1
        nltk download
        spacy.cli download
        tensorflow_datasets load
        tensorflow.keras.utils get_file
        keras.utils get_file
        kagglehub model_download dataset_download
        statsmodels.datasets get_rdataset
        pandas_datareader.data DataReader
        yfinance download Ticker
        wget download
        gdown download download_folder
        feedparser parse
        pooch retrieve
        IPython.display IFrame YouTubeVideo
        pymongo MongoClient
        psycopg2 connect
        psycopg connect
        pymysql connect
        mysql.connector connect
        snowflake.connector connect
        redis Redis from_url
        wandb init login
        ray init
    """,
    "Runs code it builds:": """
        builtins exec eval compile execfile __import__
        importlib import_module __import__
        importlib.util module_from_spec
        importlib.machinery SourceFileLoader
        runpy run_path run_module
        code InteractiveInterpreter InteractiveConsole interact
        codeop compile_command
        imp load_source
        types FunctionType CodeType
        marshal load loads
        torch.hub load
        logging.config listen
        get_ipython() run_cell run_cell_async run_code run_ast_nodes ex ev
        get_ipython() safe_execfile safe_execfile_ipy safe_run_module
        IPython embed start_ipython
    """,
    "Loads data that may run code:": """
        pickle load loads Unpickler
        pickle5 load loads Unpickler
        dill load loads Unpickler load_session load_module
        cloudpickle load loads
        compress_pickle load loads
        joblib load
        sklearn.externals.joblib load
        pandas read_pickle
        torch load
        numpy loads
        shelve open DbfilenameShelf Shelf
        marshal load loads
        jsonpickle decode
        jsonpickle.unpickler decode Unpickler
        yaml load load_all unsafe_load unsafe_load_all full_load full_load_all
        ruamel.yaml load unsafe_load
        keras.models load_model
        tensorflow.keras.models load_model
        mlflow.pyfunc load_model
        fastai.learner load_learner
        fastai.vision.all load_learner
    """,
    "Loads native code:": """
        ctypes CDLL PyDLL WinDLL OleDLL memmove memset string_at pythonapi CFUNCTYPE
        ctypes.cdll LoadLibrary
        ctypes.pydll LoadLibrary
        ctypes.windll LoadLibrary
        cffi.FFI() dlopen verify
        numpy.ctypeslib load_library
        importlib.machinery ExtensionFileLoader
        torch.ops load_library
        torch.utils.cpp_extension load load_inline
        tensorflow load_op_library
        pyximport install
        cppyy load_library include cppdef
    """,
    "Installs packages:": """
        pip main
        pip._internal main
        pip._internal.cli.main main
        micropip install
        piplite install
        ensurepip bootstrap
        spacy.cli download
    """,
    "Stops processes:": """
        os kill killpg abort _exit
        builtins exit quit
        signal raise_signal pthread_kill
        psutil.Process() kill terminate send_signal suspend
        get_ipython() ask_exit
    """,
    "Changes the kernel:": """
        os chdir fchdir chroot putenv unsetenv umask setuid setgid nice fork dup2 close closerange
        os.environ update pop popitem setdefault clear __setitem__ __delitem__
        signal signal
        atexit register unregister
        sys settrace setprofile addaudithook
        threading settrace setprofile
        resource setrlimit
        dotenv load_dotenv
        globals() clear update setdefault
        get_ipython() set_custom_exc set_hook register_magic_function
        get_ipython().events register unregister
    """,
    "Deletes variables:": """
        globals() pop popitem
        get_ipython() reset reset_selective del_var drop_by_id
    """,
    "Reads secrets:": """
        keyring get_password get_credential
        dotenv load_dotenv dotenv_values
        google.colab.userdata get
        google.colab userdata
        kaggle_secrets UserSecretsClient
        os environ environb getenvb
        os.environ copy items values
    """,
    "Shows HTML or script:": """
        IPython.display HTML SVG Javascript IFrame display_html display_svg display_javascript
        ipywidgets HTML
        IPython.lib.display IFrame
    """,
    "Changes a database:": """
        sqlalchemy.MetaData() drop_all create_all
        redis.Redis() flushall flushdb delete
    """,
    "Deletes remote data:": """
        huggingface_hub delete_repo delete_file delete_folder
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
        pandas to_pickle
        urllib.request urlretrieve
        nbformat write
        wget download
        pyarrow.parquet write_table
        pyarrow.feather write_feather
        pyarrow.csv write_csv
        safetensors.torch save_file
    """,
    "Uses the network:": """
        requests request
        httpx request stream
    """,
    "Runs code it builds:": """
        importlib.util spec_from_file_location
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
        ftplib smtplib poplib imaplib nntplib telnetlib xmlrpc.client xmlrpc.server websocket websockets paramiko pysftp
        fabric asyncssh ldap3 pysnmp scapy zmq grpc kafka pika paho multiprocessing.connection multiprocessing.managers
        boto3 botocore aiobotocore google.cloud google.generativeai azure.storage azure.identity gcsfs s3fs adlfs
        huggingface_hub openai anthropic cohere kaggle dropbox github slack_sdk twilio tweepy praw notion_client
        selenium playwright.sync_api playwright.async_api pyngrok
        """),
        "Uses the network:",
    ),
}
"""Effects of all calls into these modules and on their clients."""

HARMLESS = frozenset(
    _named("""
    socket gethostname inet_aton inet_ntoa ntohs htons htonl ntohl
    urllib.request quote unquote pathname2url url2pathname Request
    requests.utils quote unquote
    requests.adapters HTTPAdapter
    httpx Timeout URL Limits
    aiohttp ClientTimeout
    urllib3 Retry Timeout disable_warnings
    urllib3.util.retry Retry
    """)
)
"""Exceptions in those modules, without effects."""

OPENERS: dict[str, tuple[int, str]] = {
    **dict.fromkeys(
        words("""
        open codecs.open aiofiles.open os.fdopen smart_open.open io.FileIO pathlib.Path.open gzip.open gzip.GzipFile
        bz2.open bz2.BZ2File lzma.open lzma.LZMAFile zipfile.ZipFile tarfile.open tarfile.TarFile dbm.open wave.open
        h5py.File fsspec.open rasterio.open fiona.open netCDF4.Dataset soundfile.SoundFile zarr.open_group
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
    to_csv to_parquet to_excel to_json to_pickle to_feather to_hdf to_html to_latex to_markdown to_stata to_xml to_orc
    to_netcdf to_zarr to_file to_gbq tofile write_csv write_parquet write_json write_ndjson write_excel write_ipc
    write_avro write_delta write_database sink_csv sink_parquet savefig imsave write_image write_html save save_as
    save_model save_pretrained save_weights saveAsTextFile
    """)
"""Methods whose first argument is the file to write. Without it, several of them only return the text."""

METHODS: dict[str, Effect] = {
    "extractall": "Writes files:",
    "rm": "Deletes files:",
    "to_sql": "Changes a database:",
    **dict.fromkeys(words("exec_command sudo"), "Runs shell commands:"),
    **dict.fromkeys(words("terminate kill send_signal do_shutdown ask_exit"), "Stops processes:"),
    **dict.fromkeys(words("load_module exec_module"), "Runs code it builds:"),
    **dict.fromkeys(
        words("from_pretrained push_to_hub upload_file upload_folder set_missing_host_key_policy"),
        "Uses the network:",
    ),
    **dict.fromkeys(
        words("""
        insert_one insert_many update_one update_many replace_one delete_one delete_many bulk_write find_one_and_delete
        drop_database drop_collection drop_all create_all flushall flushdb saveAsTable insertInto
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
    r"user|role|cluster|volume|snapshot|repo|file|folder|container|secret|key|db|job|model|endpoint|deployment|release|"
    r"branch|index|collection|database|namespace|view|schema|group|image|version)\w*"
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
    "_pickle": "pickle",
    "cPickle": "pickle",
    "__builtins__": "builtins",
    "io.open": "open",
    "os.environ.__getitem__": "os.getenv",
    "os.environ.get": "os.getenv",
    "huggingface_hub.HfApi()": "huggingface_hub",
    "IPython.get_ipython": "get_ipython",
    "IPython.core.getipython.get_ipython": "get_ipython",
    "IPython.core.display.HTML": "IPython.display.HTML",
    "IPython.core.display.Javascript": "IPython.display.Javascript",
}
"""Aliases of the names in the tables."""

CONVENTIONS: dict[str, str] = {
    "np": "numpy",
    "pd": "pandas",
    "plt": "matplotlib.pyplot",
    "sns": "seaborn",
    "tf": "tensorflow",
    "tfds": "tensorflow_datasets",
    "sp": "subprocess",
    "yf": "yfinance",
    "widgets": "ipywidgets",
    **{
        full.rpartition(".")[2]: full
        for full in words("""
        pathlib.Path shutil.rmtree shutil.copytree shutil.copyfile os.environ os.getenv subprocess.Popen
        subprocess.check_call subprocess.check_output subprocess.getoutput urllib.request.urlopen
        urllib.request.urlretrieve importlib.import_module pandas.read_pickle pandas.ExcelWriter zipfile.ZipFile
        ctypes.CDLL dotenv.load_dotenv send2trash.send2trash huggingface_hub.hf_hub_download
        os.remove os.unlink os.system os.popen
        huggingface_hub.snapshot_download datasets.load_dataset IPython.display.HTML IPython.display.Javascript
        IPython.display.IFrame IPython.display.display
        """)
    },
}
"""Usual meanings of names that an earlier cell may have imported."""

SHELL_MAGICS = words("sx system sc sh bash zsh script ! cmd bg")
"""Magics that run their line or cell in a shell."""
COMMAND_MAGICS = words("rm mv cp mkdir rmdir pip conda mamba micromamba uv")
"""Magics that are themselves a shell command."""
MAGICS: dict[str, Effect] = {
    **dict.fromkeys(
        words("alias qtconsole perl ruby R julia node python python2 python3 pypy"), "Runs shell commands:"
    ),
    **dict.fromkeys(words("run load loadpy macro rerun recall edit pylab alias_magic"), "Runs code it builds:"),
    **dict.fromkeys(words("writefile file save logstart notebook store"), "Writes files:"),
    **dict.fromkeys(words("javascript js html HTML svg SVG"), "Shows HTML or script:"),
    **dict.fromkeys(words("cython fortran inline cuda"), "Loads native code:"),
    **dict.fromkeys(words("reset reset_selective xdel"), "Deletes variables:"),
    **dict.fromkeys(words("cd pushd popd"), "Changes the kernel:"),
    **dict.fromkeys(words("pastebin bigquery"), "Uses the network:"),
    "killbgscripts": "Stops processes:",
    "connect_info": "Reads secrets:",
}
HARMLESS_MAGICS = words("""
    matplotlib config autoreload aimport load_ext reload_ext unload_ext who who_ls whos pwd precision pdb pprint xmode
    colors autosave automagic autocall lsmagic magic quickref page pdef pdoc pfile pinfo pinfo2 psearch psource pycat
    gui dirs dhist bookmark hist history tb logstop logon logoff logstate doctest_mode latex markdown tensorboard
    unalias rehashx profile clear cls subplots watermark agent ls cat ll lf lk ldir lx less more man
    """)
