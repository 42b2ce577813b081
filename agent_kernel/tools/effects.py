"""Which Python functions and methods have effects that a person wants to know of before approving."""

import re

from agent_kernel.tools.findings import Effect

FUNCTIONS: dict[str, Effect] = {
    **dict.fromkeys(
        ("os.remove", "os.unlink", "os.rmdir", "os.removedirs", "shutil.rmtree", "send2trash.send2trash"),
        "Deletes files:",
    ),
    **dict.fromkeys(("os.system", "os.popen", "pty.spawn", "asyncio.create_subprocess_shell"), "Runs shell commands:"),
    **dict.fromkeys(("asyncio.create_subprocess_exec", "get_ipython.system"), "Runs shell commands:"),
    **dict.fromkeys(("os.mkdir", "os.makedirs", "numpy.savetxt", "numpy.savez_compressed"), "Writes files:"),
    **dict.fromkeys(("numpy.save", "numpy.savez"), "Writes files:"),
    **dict.fromkeys(("exec", "eval", "importlib.import_module", "__import__"), "Runs code it builds:"),
    **dict.fromkeys(("pickle.load", "pickle.loads", "joblib.load"), "Runs code it builds:"),
    "pip.main": "Installs packages:",
}
"""By full name. The first argument is what they do it to."""

SECOND_ARGUMENT: dict[str, Effect] = dict.fromkeys(
    (
        "os.rename",
        "os.replace",
        "os.link",
        "os.symlink",
        "shutil.copy",
        "shutil.copy2",
        "shutil.copyfile",
        "shutil.copytree",
        "shutil.move",
        "joblib.dump",
        "torch.save",
        "urllib.request.urlretrieve",
    ),
    "Writes files:",
)
"""By full name. The second argument is the file that they write."""

MODULES: dict[str, Effect] = {
    "subprocess": "Runs shell commands:",
    **dict.fromkeys(
        ("requests", "httpx", "aiohttp", "urllib3", "urllib.request", "ftplib", "smtplib", "socket", "paramiko"),
        "Uses the network:",
    ),
    **dict.fromkeys(("boto3", "websockets", "http.client", "huggingface_hub"), "Uses the network:"),
}
"""Every call into these modules."""

OPENERS = frozenset({"open", "io.open", "codecs.open", "gzip.open", "bz2.open", "lzma.open"})
"""They write where their mode says so."""

WRITERS = frozenset(
    {
        *("to_csv", "to_parquet", "to_excel", "to_json", "to_pickle", "to_feather", "to_hdf", "to_html", "to_latex"),
        *("to_markdown", "to_stata", "to_xml", "to_orc", "to_netcdf", "to_zarr", "to_file"),
        *("write_csv", "write_parquet", "write_json", "write_ndjson", "write_excel", "write_ipc", "write_avro"),
        *("sink_csv", "sink_parquet", "savefig", "write_image", "write_html", "save", "save_model", "imsave"),
    }
)
"""Methods whose first argument is the file that they write. Without one, several of them only return the text."""

PATH_WRITERS = frozenset({"write_text", "write_bytes", "touch", "mkdir", "symlink_to", "hardlink_to"})
"""Methods of a path, which is what they write."""

PATH_DELETERS = frozenset({"unlink", "rmdir"})

ROW_DROPPERS = frozenset({"dropna", "drop_duplicates"})

REMOTE = ("http://", "https://", "ftp://", "s3://", "gs://", "gcs://", "az://", "abfs://", "hf://")

DATABASE_METHODS = frozenset({"execute", "executemany", "executescript", "sql", "query", "to_sql"})
DATABASE_CHANGE = re.compile(
    r"\s*(insert\s+into|update\s+\S+\s+set|delete\s+from|replace\s+into|merge\s+into|"
    r"(drop|alter|create|truncate)\s+\S)",
    re.IGNORECASE,
)
