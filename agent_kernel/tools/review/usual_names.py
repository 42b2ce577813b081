"""Aliases and usual abbreviations of the names in the tables of `effects`, and the prefixes of all of them."""

from agent_kernel.tools.review.effects import FUNCTIONS, HARMLESS, MODULES, OPENERS, words

CORE_MODULES = words("os sys builtins subprocess shutil socket ssl io pathlib importlib")
"""Modules whose attributes affect all other code when they are set."""
LOOKED_THROUGH = words("os sys subprocess shutil builtins __builtins__ importlib ctypes")
"""Modules that are reachable through other modules (`shutil.os`)."""

SAME: dict[str, str] = {
    "posix": "os",
    "nt": "os",
    "_io": "io",
    "_ctypes": "ctypes",
    "_pickle": "pickle",
    "cPickle": "pickle",
    "_socket": "socket",
    "_posixsubprocess": "subprocess",
    "__builtins__": "builtins",
    "io.open": "open",
    "os.environ.__getitem__": "os.getenv",
    "os.environ.get": "os.getenv",
    "pathlib.PosixPath": "pathlib.Path",
    "huggingface_hub.HfApi()": "huggingface_hub",
    "IPython.get_ipython": "get_ipython",
    "IPython.core.getipython.get_ipython": "get_ipython",
    "IPython.core.display.HTML": "IPython.display.HTML",
    "IPython.core.display.Javascript": "IPython.display.Javascript",
    "get_ipython().user_ns": "globals()",
    "get_ipython().user_global_ns": "globals()",
}
"""Aliases of the names in the tables."""

CONVENTIONS: dict[str, str] = {
    "np": "numpy",
    "pd": "pandas",
    "pl": "polars",
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
        IPython.display.IFrame IPython.display.display io.StringIO io.BytesIO tempfile.TemporaryFile
        tempfile.NamedTemporaryFile tempfile.TemporaryDirectory
        """)
    },
}
"""Usual meanings of names that an earlier cell may have imported."""

NAMES = frozenset(
    ".".join(parts[:length])
    for name in (*FUNCTIONS, *OPENERS, *MODULES)
    for parts in [name.split(".")]
    for length in range(1, len(parts) + 1)
)
"""The names in the tables and their prefixes."""
_MORE_ROOTS = words("""
    globals locals vars getattr setattr delattr sorted list tuple reversed iter next set str operator io tempfile timeit
    cProfile profile pdb trace numexpr duckdb polars pandas ipywidgets IPython sqlalchemy ssl keras sklearn torchvision
    """)
ROOTS = frozenset(
    name.partition(".")[0].removesuffix("()")
    for name in (*NAMES, *HARMLESS, *CORE_MODULES, *SAME, *CONVENTIONS.values(), *_MORE_ROOTS)
)
"""The first parts of names that matter; all others are dropped."""
