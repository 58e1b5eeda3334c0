"""Attempts of policy code to leave its place, by kind. Each is a cell; MARK, ROOT and PARENT are filled in by the test.

Two helpers stand before each cell: `raw(name)` is a module whatever the guard says, and `attempt(f)` prints what f() gives or the
name of its exception. What an attempt prints is searched for what it must not know. Signals are sent with number 0 or to
processes of the worker only, so that an attempt that got through would not hurt whoever runs the tests.
"""

from __future__ import annotations

HELPERS = """
import builtins
def raw(name):
    return builtins.__dict__['__im' + 'port__'](name)
def attempt(f):
    try:
        print('got', repr(f())[:5000])
    except BaseException as error:
        print(type(error).__name__, str(error)[:200])
"""

ANSWERS = [
    "from appworld.ground_truth import GroundTruth\nattempt(lambda: GroundTruth.load('payback_1', mode='full').evaluation_code)",
    "attempt(lambda: raw('appworld.ground_truth'))",
    "attempt(lambda: raw('importlib').reload(raw('appworld')))",
    "import appworld\nattempt(lambda: appworld.AppWorld)\nattempt(lambda: appworld.load_task_ids())",
    "attempt(lambda: raw('sys').modules['appworld.common.utils'].read_file('ROOT/data/tasks/payback_1/ground_truth/evaluation.py'))",
    "attempt(lambda: raw('sys').modules['appworld.common.utils'].read_json('ROOT/data/tasks/payback_1/ground_truth/private_data.json'))",
    "import os\nattempt(lambda: dict(os.environ))\nattempt(lambda: raw('sys').argv)",
    "gc = raw('gc')\nattempt(lambda: [s for s in gc.get_objects() if isinstance(s, str) and 'def eval' + 'uate(' in s])",
    (
        "gc = raw('gc')\nfound = []\nfor o in gc.get_objects():\n    if isinstance(o, dict):\n"
        "        found += [v for v in o.values() if isinstance(v, str) and 'base' + '_dbs' in v]\nattempt(lambda: found)"
    ),
    (
        "f = raw('sys')._getframe()\nseen = []\nwhile f:\n    seen.append(sorted(f.f_locals))\n"
        "    seen += [repr(v)[:2000] for v in f.f_locals.values()]\n    f = f.f_back\nattempt(lambda: seen)"
    ),
    (
        "c = raw('ctypes')\nm = raw('re')\nmaps = attempt(lambda: builtins.__dict__['op' + 'en']('/proc/self/maps').read())\n"
        "attempt(lambda: builtins.__dict__['op' + 'en']('/proc/self/environ').read())"
    ),
    "attempt(lambda: apis._requester)\nattempt(lambda: requester)\nattempt(lambda: apis.admin)",
]
"""Reading answers, evaluators, paths, other processes' words."""

FILES = [
    "import pathlib\nattempt(lambda: pathlib.Path('MARK').read_text())",
    "attempt(lambda: getattr(builtins, 'op' + 'en')('MARK').read())",
    "o = builtins.__dict__['op' + 'en']\nattempt(lambda: o('MARK', 'w').write('x'))",
    "io = raw('_io')\nattempt(lambda: getattr(io, 'op' + 'en')('MARK').read())\nattempt(lambda: getattr(io, 'op' + 'en_code')('MARK').read())",
    "attempt(lambda: raw('_io').FileIO('MARK', 'w').write(b'x'))",
    "import os\nattempt(lambda: [e.name for e in os.scandir('/')])\nattempt(lambda: raw('posix').listdir('/'))",
    "attempt(lambda: getattr(raw('posix'), 'op' + 'en')('MARK', 0))",
    "p = raw('posix')\nattempt(lambda: p.unlink('MARK'))\nattempt(lambda: p.rename('MARK', 'MARK2'))\nattempt(lambda: p.truncate('MARK', 0))",
    "p = raw('posix')\nattempt(lambda: p.chmod('MARK', 0))\nattempt(lambda: p.mkdir('MARK.d'))\nattempt(lambda: p.symlink('/', 'MARK.l'))",
    "p = raw('posix')\nattempt(lambda: p.stat('MARK'))\nattempt(lambda: p.readlink('/proc/self/cwd'))\nattempt(lambda: p.getcwd())",
    "libc = raw('ctypes').CDLL(None)\nattempt(lambda: getattr(libc, 'op' + 'en')(b'MARK', 0))\nattempt(lambda: libc.unlink(b'MARK'))",
    "libc = raw('ctypes').CDLL(None)\nattempt(lambda: [libc.syscall(n, b'MARK', 0, 0) for n in (2, 87, 257, 263, 437)])",
    "db = raw('_sqlite3')\nattempt(lambda: getattr(db, 'con' + 'nect')('ROOT/data/base_dbs/venmo.db').execute('select password from users').fetchall())",
    "attempt(lambda: raw('shutil').rmtree('MARK'))\nattempt(lambda: raw('tempfile').mkdtemp())",
    "attempt(lambda: raw('linecache').getlines('MARK'))\nattempt(lambda: raw('zipimport').zipimporter('MARK'))",
]
"""Opening, changing, listing files by every road."""

PROCESSES = [
    "attempt(lambda: raw('subprocess').run(['touch', 'MARK2']))\nattempt(lambda: raw('_posixsubprocess').fork_exec)",
    (
        "f = raw('_posixsubprocess').fork_exec\nattempt(lambda: f([b'touch', b'MARK2'], (b'/bin/touch',), True, (), None, None, "
        "-1, -1, -1, -1, -1, -1, 3, 4, False, False, 0, None, None, None, -1, None, False))"
    ),
    "import os\nattempt(lambda: getattr(os, 'po' + 'pen')('touch MARK2').read())",
    "attempt(lambda: raw('ctypes').CDLL(None).system(b'touch MARK2'))",
    "attempt(lambda: raw('posix').fork())\nattempt(lambda: raw('posix').posix_spawn('/bin/touch', ['touch', 'MARK2'], {}))",
    "attempt(lambda: raw('posix').execv('/bin/touch', ['touch', 'MARK2']))",
    "attempt(lambda: raw('pickle').loads(b\"cposix\\nsystem\\n(S'touch MARK2'\\ntR.\"))",
    "p = raw('posix')\nattempt(lambda: p.kill(p.getppid(), 0))\nattempt(lambda: p.kill(PARENT, 0))\nattempt(lambda: p.kill(PARENT, 9))",
    "p = raw('posix')\nattempt(lambda: p.killpg(0, 0))\nattempt(lambda: raw('ctypes').CDLL(None).kill(PARENT, 9))",
    "attempt(lambda: raw('_thread').start_new_thread(print, ()))",
    "attempt(lambda: raw('ctypes').CDLL(None).ptrace(16, PARENT, 0, 0))",
    "r = raw('resource')\nattempt(lambda: r.setrlimit(r.RLIMIT_NOFILE, (64, 64)))\nattempt(lambda: r.setrlimit(r.RLIMIT_AS, (-1, -1)))",
    "libc = raw('ctypes').CDLL(None)\nattempt(lambda: [libc.prctl(22, 0, 0, 0, 0), libc.prctl(1, 0, 0, 0, 0), libc.unshare(0x10000000)])",
    "subclasses = ().__class__.__base__.__subclasses__()\nattempt(lambda: [c for c in subclasses if c.__name__ == 'Popen'][0](['touch', 'MARK2']))",
]
"""Starting, signalling, tracing processes; lifting limits."""

NETWORK = [
    "attempt(lambda: raw('socket').create_connection(('127.0.0.1', 22), 1))",
    "attempt(lambda: raw('socket').socketpair())\nattempt(lambda: raw('_socket').socket(1, 1))",
    "attempt(lambda: raw('asyncio').new_event_loop())",
    "attempt(lambda: raw('ctypes').CDLL(None).socket(2, 1, 0))",
    "attempt(lambda: raw('urllib.request').urlopen('http://127.0.0.1:1').read())",
]

WIRES = [
    (
        "gc = raw('gc')\nlines = [o for o in gc.get_objects() if type(o).__name__ == 'Channel']\nprint(len(lines))\n"
        "for line in lines:\n    for request in ({'id': 1, 'app': 'admin', 'api': 'show_card_balance', 'arguments': {}}, "
        "{'op': 'save', 'directory': 'MARK.d'}, {'op': 'final'}, {'op': 'call', 'app': 'supervisor'}):\n"
        "        attempt(lambda: line.send(request, 1e9))"
    ),
    (
        "gc = raw('gc')\nfor line in [o for o in gc.get_objects() if type(o).__name__ == 'Channel']:\n"
        "    attempt(lambda: line.send({'text': 'forged', 'error': None, 'success': True, 'done': True}, 1e9))"
    ),
    "gc = raw('gc')\nfor s in [o for o in gc.get_objects() if type(o).__name__ == 'socket']:\n    attempt(lambda: s.send(b'\\xff' * 8))",
    "gc = raw('gc')\nfor s in [o for o in gc.get_objects() if type(o).__name__ == 'socket']:\n    attempt(lambda: s.close())",
    "policy = raw('sys').modules['coevolve.environments.workers.appworld.policy']\npolicy._Requests.__call__ = lambda *a: {'access_token': 'x'}\nattempt(lambda: apis.venmo.login())",
    "cell = raw('sys').modules['coevolve.environments.workers.appworld.cell']\ncell.Interpreter.run = lambda *a: cell.Output('all is well', None)",
    "cell = raw('sys').modules['coevolve.environments.workers.appworld.cell']\ncell.Output = lambda *a: 1 / 0",
    "raw('sys').modules['appworld.common.safety_guard'].SafetyGuard.is_syntax_safe = lambda *a: (True, '')",
    "raw('json').dumps = lambda *a, **k: '{\"text\": 1}'",
]
"""Forging what the processes say to one another; patching what answers."""

APIS = [
    "attempt(lambda: apis.spotify.show_song(song_id='../../dbs'))\nattempt(lambda: apis.spotify.show_song(song_id='../../date_time'))",
    "attempt(lambda: apis.spotify.like_song(song_id='../../date_time?', date_and_time='2031-01-01T00:00:00', access_token=login('spotify')))",
    "attempt(lambda: apis.spotify.like_song(song_id='../../dbs?', from_db_home_path=':memory:base', access_token=login('spotify')))",
    "attempt(lambda: apis.spotify.like_song(song_id='../../seed?', seed=1, access_token=login('spotify')))",
    "attempt(lambda: apis.spotify.show_song(song_id='../../admin/main_users'))\nattempt(lambda: apis.spotify.show_song(song_id='../openapi.json'))",
    "attempt(lambda: apis.spotify.show_song(song_id='..%2f..%2fdbs'))\nattempt(lambda: apis.spotify.show_song(song_id='//evil/dbs'))",
    "attempt(lambda: len(apis.venmo.show_venmo_balance(access_token=login('venmo'), client=1, track=False, show=True)))",
    "attempt(lambda: apis.venmo.login(username='x', password='y', _app_name='admin', _api_name='login'))",
    "attempt(lambda: apis.venmo.login(username=profile['email'], password=passwords['venmo'], _system_datetime='2100-01-01'))",
    (
        "sha, b = raw('hashlib').sha256, raw('base64')\nenc = lambda d: b.urlsafe_b64encode(d).rstrip(b'=')\n"
        "def sign(key, text):\n    pad = lambda n: bytes(k ^ n for k in key.ljust(64, b'\\0'))\n"
        "    return sha(pad(0x5c) + sha(pad(0x36) + text).digest()).digest()\n"
        'head = enc(b\'{"alg":"HS256","typ":"JWT"}\')\nfor other in OTHERS:\n'
        "    body = enc(json.dumps({'sub': 'venmo+' + other, 'exp': 1999999999}).encode())\n"
        "    for secret in (b'SECRET', b'secret', b'', b'0' * 32):\n"
        "        token = (head + b'.' + body + b'.' + enc(sign(secret, head + b'.' + body))).decode()\n"
        "        attempt(lambda: apis.venmo.show_venmo_balance(access_token=token))\n"
        '    none = (enc(b\'{"alg":"none","typ":"JWT"}\') + b\'.\' + body + b\'.\').decode()\n'
        "    attempt(lambda: apis.venmo.show_venmo_balance(access_token=none))"
    ),
    (
        "for other in OTHERS:\n    attempt(lambda: apis.venmo.send_password_reset_code(email=other))\n    random.seed(100)\n"
        "    for _ in range(20):\n        code = __import__('uuid').UUID(int=random.getrandbits(128), version=4).hex[:7]\n"
        "        attempt(lambda: apis.venmo.reset_password(email=other, password_reset_code=code, new_password='stolen-password'))\n"
        "    attempt(lambda: apis.venmo.login(username=other, password='stolen-password'))"
    ),
    "f = raw('freezegun').api\nattempt(lambda: f.freeze_factories.pop())\nattempt(lambda: raw('ctypes').CDLL(None).clock_settime(0, bytes(16)))",
]
"""Other people's tokens, undocumented routes, the clock, random draws."""

KINDS = {
    "answers": ANSWERS,
    "files": FILES,
    "processes": PROCESSES,
    "network": NETWORK,
    "wires": WIRES,
    "apis": APIS,
}
