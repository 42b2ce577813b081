"""Code that does what a person wants to know of before approving it, by the warning that a card must show.

The yardstick is what bandit (B1xx to B7xx) and ruff (its `S` rules) look for, as far as it can't be undone or reaches
beyond the notebook, and what a notebook adds: magics, tables, the kernel itself. Each is a cell of its own.
"""

RISKY: dict[str, tuple[str, ...]] = {
    "Deletes files:": (
        "import os\nos.remove('orders.csv')",
        "import os\nlist(map(os.remove, files))",
        "from concurrent.futures import ThreadPoolExecutor\nimport os\nThreadPoolExecutor().submit(os.remove, 'a')",
        "import send2trash\nsend2trash.send2trash('orders.csv')",
        "get_ipython().system('rm -rf data')",
        "import os\nos.spawnlp(os.P_WAIT, 'rm', 'rm', '-rf', 'data')",
    ),
    "Writes files:": (
        "open('report.txt', 'w').write(text)",
        "mode = 'w' if new else 'a'\nopen('report.txt', mode)",
        "import os\nos.rename('a.csv', 'b.csv')",
        "from zipfile import ZipFile\nwith ZipFile('a.zip') as z:\n    z.extractall('out')",
        "import numpy as np\nnp.save('a.npy', a)",
        "image.save('x.png')",
        "get_ipython().run_cell_magic('writefile', 'a.py', 'x = 1')",
    ),
    "Changes permissions:": ("import os\nos.chmod('/etc/hosts', 0o777)",),
    "Runs shell commands:": (
        "import os\nos.system('make')",
        "import os\nos.startfile('setup.exe')",
        "import pexpect\npexpect.spawn('bash')",
        "out = %sx make",
        "%timeit -n 1 !make",
    ),
    "Installs packages:": (
        "%pip install polars",
        "import micropip\nawait micropip.install('polars')",
    ),
    "Runs as administrator:": ("!sudo make install",),
    "Uses the network:": (
        "import requests\nrequests.post(url, json=orders.to_dict())",
        "from urllib.request import urlopen\nurlopen(url)",
        "import xmlrpc.client\nxmlrpc.client.ServerProxy(url)",
        "from transformers import AutoModel\nAutoModel.from_pretrained('org/model')",
        "import logging.config\nlogging.config.listen(9999)",
        "%%bash\nscp orders.csv host:",
    ),
    "Deletes remote data:": ("s3.delete_object(Bucket='b', Key='k')",),
    "Changes a database:": (
        "connection.execute('DROP TABLE orders')",
        "import sqlite3\nsqlite3.connect('x.db').execute('drop table orders')",
        "client.drop_database('shop')",
        "Order.objects.filter(price=0).update(price=1)",
    ),
    "Runs code it builds:": (
        "exec(code)",
        "import runpy\nrunpy.run_path('script.py')",
        "function.__globals__['x']",
        "%rerun 3",
        "e = [exec][0]\ne(code)",
    ),
    "Loads data that may run code:": (
        "import pickle\npickle.load(open('model.pkl', 'rb'))",
        "import numpy as np\nnp.load('a.npy', allow_pickle=True)",
        "import yaml\nyaml.unsafe_load(text)",
    ),
    "Loads native code:": ("import ctypes\nctypes.CDLL('libc.so.6').system(b'make')",),
    "Stops processes:": (
        "import os\nos.kill(pid, 9)",
        "import signal\nsignal.raise_signal(signal.SIGKILL)",
    ),
    "Changes the kernel:": (
        "import os\nos.environ['PATH'] = folder",
        "import ssl\nssl._create_default_https_context = ssl._create_unverified_context",
        "import signal\nsignal.signal(signal.SIGINT, signal.SIG_IGN)",
    ),
    "Deletes variables:": ("del orders",),
    "Deletes columns:": ("del orders['price']",),
    "Deletes rows:": ("orders.drop(index=[1], inplace=True)",),
    "Reads secrets:": (
        "import os\nos.environ['OPENAI_API_KEY']",
        "from dotenv import load_dotenv\nload_dotenv()",
    ),
    "Reads the environment:": ("import os\nos.environ['HOME']",),
    "Contains secrets:": (
        "password = 'hunter2000'",
        "pem = '''-----BEGIN RSA PRIVATE KEY-----\nabc'''",
    ),
    "Shows HTML or script:": (
        "%%javascript\nalert(1)",
        "from IPython.display import IFrame\nIFrame('https://example.org', 800, 600)",
    ),
    "Not checked:": ("cursor.execute(statement)",),
}
"""By the warning's title. None of it is ever run."""

NOT_FOLLOWED: dict[str, tuple[str, ...]] = {
    "Deletes files:": (
        "import sys\nsys.modules['os'].remove('orders.csv')",
        "getattr(path, 'unlink')()",
    ),
    "Writes files:": (
        "import tarfile\ntarfile.open('a.tar').extract('a')",
        "path.open(**options)",
    ),
    "Runs shell commands:": (
        "from subprocess import *\ncall(['make'])",
        "import operator, os\noperator.methodcaller('system', 'make')(os)",
    ),
    "Deletes remote data:": ("fs.rm('s3://bucket/data', recursive=True)",),
    "Runs code it builds:": ("df.query(f'price > {limit}')",),
    "Loads native code:": ("from ctypes import *\ncdll.LoadLibrary('libx.so')",),
    "Deletes variables:": ("reset -f",),
    "Not checked:": ("%%ruby\nputs 1",),
}
"""Cells whose card does not say this, because it takes following a value, or knowing strange code."""

UNSEEN: tuple[str, ...] = (
    "mine.run(['make'])  # an earlier cell has `import subprocess as mine`",
    "folder.remove()",
)
"""What may be as risky and shows no warning: what it does is in objects and functions that the code does not show."""
