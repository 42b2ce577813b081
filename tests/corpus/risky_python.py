"""Code that does what a person wants to know of before approving it, by the warning that a card must show.

The yardstick is what bandit (B1xx to B7xx) and ruff (its `S` rules) look for, as far as it can't be undone or reaches
beyond the notebook, and what a notebook adds: magics, tables, the kernel itself. Each is a cell of its own.
"""

RISKY: dict[str, tuple[str, ...]] = {
    "Deletes files:": (
        "import os\nos.remove('orders.csv')",
        "import os\nos = os\nos.remove('orders.csv')",
        "import os\nlist(map(os.remove, files))",
        "import shutil\nshutil.rmtree(path='data')",
        "from concurrent.futures import ThreadPoolExecutor\nimport os\nThreadPoolExecutor().submit(os.remove, 'a')",
        "from pathlib import Path\nlist(map(Path.unlink, Path('.').iterdir()))",
        "import send2trash\nsend2trash.send2trash('orders.csv')",
        "%time !rm -rf data",
        "get_ipython().system('rm -rf data')",
        "import subprocess\nsubprocess.run(['rm', '-rf', folder])",
        "import os\nos.spawnlp(os.P_WAIT, 'rm', 'rm', '-rf', 'data')",
    ),
    "Writes files:": (
        "open('report.txt', 'w').write(text)",
        "import io\nio.open('report.txt', mode='x')",
        "mode = 'w' if new else 'a'\nopen('report.txt', mode)",
        "from pathlib import Path\nPath('a.txt').replace('b.txt')",
        "import os\nos.rename('a.csv', 'b.csv')",
        "import shutil\nshutil.copytree('a', 'b', dirs_exist_ok=True)",
        "from zipfile import ZipFile\nwith ZipFile('a.zip') as z:\n    z.extractall('out')",
        "orders.to_parquet(path='orders.parquet')",
        "import numpy as np\nnp.save('a.npy', a)",
        "import joblib\njoblib.dump(model, 'model.joblib')",
        "image.save('x.png')",
        "%cp a.csv b.csv",
        "get_ipython().run_cell_magic('writefile', 'a.py', 'x = 1')",
        "with open('a.json', 'w') as f:\n    json.dump(data, f)",
    ),
    "Changes permissions:": (
        "import os\nos.chmod('/etc/hosts', 0o777)",
        "import os\nos.chown(path, 0, 0)",
    ),
    "Runs shell commands:": (
        "import os\nos.system('make')",
        "import os\nos.execv('/bin/sh', ['sh'])",
        "import os\nos.startfile('setup.exe')",
        "import subprocess as sp\nsp.check_output('make', shell=True)",
        "import pexpect\npexpect.spawn('bash')",
        "!!make",
        "out = %sx make",
        "%alias m make",
        "%timeit -n 1 !make",
        "%%script python3\nimport os\nos.system('make')",
    ),
    "Installs packages:": (
        "%pip install polars",
        "import pip\npip.main(['install', 'polars'])",
        "import micropip\nawait micropip.install('polars')",
        "import spacy\nspacy.cli.download('en_core_web_sm')",
    ),
    "Runs as administrator:": ("!sudo make install",),
    "Uses the network:": (
        "import requests\nrequests.post(url, json=orders.to_dict())",
        "import requests\nfetch = requests.get\nfetch(url)",
        "from urllib.request import urlopen\nurlopen(url)",
        "import socket\ns = socket.socket()\ns.bind(('0.0.0.0', 8000))",
        "import xmlrpc.client\nxmlrpc.client.ServerProxy(url)",
        "orders.to_parquet('s3://bucket/orders.parquet')",
        "from transformers import AutoModel\nAutoModel.from_pretrained('org/model')",
        "import torch\ntorch.hub.load('org/repo', 'model')",
        "import logging.config\nlogging.config.listen(9999)",
        "import websockets\nawait websockets.connect(url)",
        "%%bash\nscp orders.csv host:",
        "import pymongo\npymongo.MongoClient(host)",
    ),
    "Deletes remote data:": (
        "s3.delete_object(Bucket='b', Key='k')",
        "client.delete_table('project.data.orders')",
    ),
    "Changes a database:": (
        "connection.execute('DROP TABLE orders')",
        "cursor.executescript('SELECT 1; DROP TABLE orders;')",
        "import sqlite3\nsqlite3.connect('x.db').execute('drop table orders')",
        "spark.sql('DROP TABLE orders')",
        "client.drop_database('shop')",
        "connection.commit()",
        "Order.objects.filter(price=0).update(price=1)",
    ),
    "Runs code it builds:": (
        "exec(code)",
        "run = exec\nrun(code)",
        "import runpy\nrunpy.run_path('script.py')",
        "df.query(expression)",
        "function.__globals__['x']",
        "from importlib.util import spec_from_file_location\nspec_from_file_location('m', path)",
        "%rerun 3",
        "get_ipython().run_line_magic('run', 'script.py')",
        "e = [exec][0]\ne(code)",
        "import base64\nexec(base64.b64decode(text))",
    ),
    "Loads data that may run code:": (
        "import pickle\npickle.load(open('model.pkl', 'rb'))",
        "import dill\ndill.load(f)",
        "import numpy as np\nnp.load('a.npy', allow_pickle=True)",
        "import marshal\nmarshal.loads(data)",
        "import yaml\nyaml.unsafe_load(text)",
    ),
    "Loads native code:": (
        "import ctypes\nctypes.CDLL('libc.so.6').system(b'make')",
        "%%cython\ndef f(): pass",
    ),
    "Stops processes:": (
        "import os\nos.kill(pid, 9)",
        "import psutil\npsutil.Process(pid).terminate()",
        "import signal\nsignal.raise_signal(signal.SIGKILL)",
    ),
    "Changes the kernel:": (
        "import os\nos.environ['PATH'] = folder",
        "import os\nos.chdir('/')",
        "import ssl\nssl._create_default_https_context = ssl._create_unverified_context",
        "import sys\nsys.modules['os'] = mine",
        "import signal\nsignal.signal(signal.SIGINT, signal.SIG_IGN)",
    ),
    "Deletes variables:": (
        "del orders",
        "get_ipython().reset()",
    ),
    "Deletes columns:": ("del orders['price']",),
    "Deletes rows:": (
        "orders.drop(index=[1], inplace=True)",
        "orders.drop_duplicates(inplace=True)",
    ),
    "Reads secrets:": (
        "import os\nos.environ['OPENAI_API_KEY']",
        "open('/home/me/.ssh/id_rsa').read()",
        "from dotenv import load_dotenv\nload_dotenv()",
        "from google.colab import userdata\nuserdata.get('KEY')",
    ),
    "Reads the environment:": (
        "import os\nos.environ['HOME']",
        "%env HOME",
    ),
    "Contains secrets:": (
        "password = 'hunter2000'",
        "self.secret = 'a1b2c3d4e5'",
        "pem = '''-----BEGIN RSA PRIVATE KEY-----\nabc'''",
    ),
    "Shows HTML or script:": (
        "%%javascript\nalert(1)",
        "from IPython.display import display, HTML\ndisplay(HTML(page))",
        "from IPython.display import IFrame\nIFrame('https://example.org', 800, 600)",
    ),
    "Not checked:": (
        "cursor.execute(statement)",
        "%%frobnicate\ndata",
    ),
}
"""By the warning's title. None of it is ever run."""

NOT_FOLLOWED: dict[str, tuple[str, ...]] = {
    "Deletes files:": (
        "import os\ngetattr(os, 'remove')('orders.csv')",
        "import sys\nsys.modules['os'].remove('orders.csv')",
        "class Tidy:\n    act = __import__('os').remove\nTidy.act('x')",
        "getattr(path, 'unlink')()",
    ),
    "Writes files:": (
        "import tarfile\ntarfile.open('a.tar').extract('a')",
        "open(path, **options)",
        "path.open(**options)",
    ),
    "Runs shell commands:": (
        "from subprocess import *\ncall(['make'])",
        ";os.system make",
        "import operator, os\noperator.methodcaller('system', 'make')(os)",
    ),
    "Deletes remote data:": ("fs.rm('s3://bucket/data', recursive=True)",),
    "Runs code it builds:": (
        "df.query(f'price > {limit}')",
        "import cProfile\ncProfile.run(statement)",
    ),
    "Loads native code:": ("from ctypes import *\ncdll.LoadLibrary('libx.so')",),
    "Deletes variables:": ("reset -f",),
    "Deletes columns:": ("orders.pop('price')",),
    "Contains secrets:": ("if password == 'hunter2000':\n    pass",),
    "Not checked:": ("%%ruby\nputs 1",),
}
"""Cells whose card does not say this, because it takes following a value, or knowing strange code."""

UNSEEN: tuple[str, ...] = (
    "mine.run(['make'])  # an earlier cell has `import subprocess as mine`",
    "session.get(address)",
    "folder.remove()",
    "import mymodule",
)
"""What may be as risky and shows no warning: what it does is in objects and functions that the code does not show."""
