"""Cells whose texts must be AppWorld's own, and a program that executes them with AppWorld itself.

    <python of the appworld environment> appworld_cells.py ROOT TASK

prints a JSON list of [cell, output].

The cells of one list share names, in order. Only standard library here; the program imports
appworld.
"""

from __future__ import annotations

import json
import os
import sys

CELLS = [
    "x = 1",
    "print(x)",
    "x",
    "print('a', 'b', sep='-', end='!')",
    "print([1, 2]); print({'a': [1] * 60}); print((1, 2)); print({1, 2}); print(None)",
    "print([set()])",
    "",
    "   \n  ",
    "# a comment",
    "1/0",
    "def f(n):\n    return g(n)\ndef g(n):\n    return 1 / n\nf(0)",
    "f(0)",
    "print('lost'); raise ValueError('two\\nlines\\n  indented')",
    "try:\n    1/0\nexcept ZeroDivisionError as error:\n    raise KeyError('k') from error",
    "try:\n    1/0\nexcept ZeroDivisionError:\n    raise KeyError('k')",
    "class E(Exception):\n    pass\nraise E()",
    "assert x == 2, 'not two'",
    "undefined",
    "print('a'",
    "for",
    "  indented = 1\nx = 2",
    "x = = 2",
    "await f()",
    "return 3",
    "!ls",
    "%timeit 1",
    "import os; os.system('id')",
    "import os\nos.listdir('.')\nos.remove('x')",
    "import subprocess",
    "import numpy as np, socket",
    "from shutil import rmtree",
    "open('/etc/passwd').read()",
    "exit()",
    "quit()",
    "raise SystemExit(3)",
    "input('?')",
    "import time; time.sleep(60); print('slept')",
    "print(datetime.datetime.now(), DateTime.now(), pendulum.now().timezone_name)",
    (
        "print(DateTime.now().start_of('month').to_datetime_string(), "
        "pendulum.parse('2023-02-03T04:05:06').diff_for_humans())"
    ),
    "print(pendulum.now('America/New_York').isoformat(), pendulum.timezone('Asia/Tokyo').name)",
    (
        "print(pendulum.datetime(2023, 5, 18).format('dddd Do [of] MMMM YYYY'), "
        "Date(2023, 5, 1).add(days=3))"
    ),
    "print(datetime.datetime.strptime('2023-01-02', '%Y-%m-%d').strftime('%A'))",
    "import time; print(time.time())",
    (
        "print(Counter('abca').most_common(1), reduce(lambda a, b: a + b, [1, 2]), "
        "defaultdict(int)['q'])"
    ),
    "import yaml, textwrap, uuid, statistics\nprint(yaml.safe_load('a: [1, 2]'))",
    (
        "import yaml, textwrap, difflib, pprint\n"
        "print(yaml.safe_load('a: [1, 2]')); pprint.pprint({'a': 1})"
    ),
    "print('ü'.encode('latin-1'), 'ü'.encode('idna'), '{:,.2f}'.format(1234.5))",
    "print(__name__)",
    "def recurse(n):\n    return recurse(n + 1)\nprint('deep')",
    "a: int = 3\nb = lambda: a\nprint(b())",
    "import json\nprint(json.dumps({'a': 1}), json.loads('[1]'))",
    "json.loads('{')",
    "print(apis.supervisor.show_profile())",
    "print(apis.nope)",
    "apis.nope.x()",
    "apis.venmo.nope()",
    "apis['venmo']['nope']",
    "print(sorted(apis.keys())); print(len(apis.spotify))",
    "apis.spotify.login('a', 'b')",
    "print(apis.venmo.login(username='x', password='y'))",
    "print(apis.venmo.show_transactions())",
    "print(apis.spotify.show_song(song_id=999))",
    "print(apis.spotify.show_song(song_id='abc'))",
    "print(apis.spotify.show_song())",
    "print(apis.spotify.search_songs(query='a', page_limit=2))",
    "print(apis.spotify.search_songs(query='a', page_limit=50))",
    "print(apis.spotify.search_songs(query='a', page_limit=2, nonsense=3))",
    "print(apis.spotify.show_song(song_id=1, raise_on_failure=False)['song_id'])",
    "print(apis.spotify.show_song(song_id=999, raise_on_failure=False))",
    "apis.supervisor.complete_task(answer={1, 2})",
    "apis.supervisor.complete_task(answer=lambda: 1)",
    "apis.supervisor.complete_task(status='maybe')",
    "print(apis.api_docs.show_app_descriptions())",
    "print(apis.api_docs.show_api_descriptions(app_name='supervisor'))",
    "print(apis.api_docs.show_api_doc(app_name='spotify', api_name='create_playlist'))",
    "print(apis.api_docs.show_api_doc(app_name='spotify', api_name='nope'))",
    "print(apis.spotify.show_song(song_id='../albums/1'))",
    "print(apis.phone.get_current_date_and_time())",
    "print(apis.venmo.login(username='x', password='y', _system_datetime=1))",
    (
        "rows = apis.supervisor.show_account_passwords()\n"
        "pw = {p['account_name']: p['password'] for p in rows}\n"
        "me = apis.supervisor.show_profile()\n"
        "token = apis.spotify.login(username=me['email'], password=pw['spotify'])['access_token']\n"
        "print(apis.spotify.create_playlist(title='Porch', access_token=token))"
    ),
    "print(apis.spotify.show_playlist_library(access_token=token))",
    "print(apis.spotify.create_playlist(title='Porch', access_token=token))",
    "print(apis.spotify.show_playlist_library(access_token='forged'))",
    "print(apis.simple_note.show_notes(access_token=token))",
    "print(pw['nope'])",
    "for i in range(3):\n    print(apis.spotify.show_song(song_id=i + 1)['title'])",
    "print(apis.supervisor.complete_task())",
    "print(apis.supervisor.show_active_task()['status'])",
]


def main(root: str, task: str) -> None:
    os.environ["APPWORLD_ROOT"] = root
    from appworld import AppWorld

    world = AppWorld(task_id=task, experiment_name=f"cells-{os.getpid()}", load_ground_truth=False)
    outputs = [[cell, world.execute(cell)] for cell in CELLS]
    world.close()
    print(json.dumps(outputs))


if __name__ == "__main__":
    main(*sys.argv[1:])
