# ruff: noqa: E501 - a program a line
"""Hostile programs by kind. One that gets what it must not calls FINAL("escaped"); `{secret}` and the like are filled in.

`attempt(f)` runs f, prints the exception that stops it, and counts as an escape when nothing does.
"""

from __future__ import annotations

PRELUDE = """
def attempt(f):
    try:
        value = f()
    except BaseException as error:
        print(type(error).__name__, str(error)[:200])
    else:
        FINAL("escaped")
        print("got", repr(value)[:200])
"""

SYSCALL = """
import ctypes
libc = ctypes.CDLL(None, use_errno=True)
def syscall(number, *args):
    result = libc.syscall(number, *args)
    if result < 0:
        raise OSError(ctypes.get_errno(), "refused")
    return result
"""

FRAME = """
import json, os
def frame(message):
    body = json.dumps(message).encode()
    return len(body).to_bytes(4, "little") + body
def channel():
    # the host's socket is the one descriptor that is a socket
    import stat
    return next(n for n in range(3, 60) if _is_socket(n))
def _is_socket(n):
    import stat
    try:
        return stat.S_ISSOCK(os.fstat(n).st_mode)
    except OSError:
        return False
"""

PROGRAMS: dict[str, dict[str, str]] = {
    "reading": {
        "a file of the host": "attempt(lambda: open('{secret}').read())",
        "/etc/passwd": "attempt(lambda: open('/etc/passwd').read())",
        "/etc/shadow": "attempt(lambda: open('/etc/shadow').read())",
        "own environment by /proc": "attempt(lambda: open('/proc/self/environ').read())",
        "host environment by /proc": "attempt(lambda: open('/proc/{host}/environ').read())",
        "host memory map": "attempt(lambda: open('/proc/{host}/maps').read())",
        "own memory by /proc": "attempt(lambda: open('/proc/self/mem', 'rb'))",
        "root folder": "import os\nattempt(lambda: os.listdir('/'))",
        "home folder": "import os\nattempt(lambda: os.listdir('{home}'))",
        "project sources": "attempt(lambda: open('{project}/pyproject.toml').read())",
        "through a link": "import os\ndef f():\n    os.symlink('{secret}', 'l')\n    return open('l').read()\nattempt(f)",
        "a link made into its own folder": (
            "import os\nos.mkdir('a')\nos.symlink('/', 'a/root')\n"
            "attempt(lambda: open('a/root{secret}').read())\nattempt(lambda: os.listdir('a/root'))"
        ),
        "a link swapped while it is opened": (
            "import os, threading\nopen('real', 'w').close()\nos.symlink('{secret}', 'bad')\nstop = []\n"
            "def swap():\n    while not stop:\n        try: os.rename('real', 't'); os.rename('bad', 'real'); os.rename('real', 'bad'); os.rename('t', 'real')\n"
            "        except OSError: pass\nthreading.Thread(target=swap, daemon=True).start()\n"
            "for _ in range(2000):\n    try: text = open('real').read()\n    except OSError: continue\n"
            "    if text: FINAL('escaped')\nstop.append(1)"
        ),
        "a folder above kept open": "import os\nd = os.open('.', os.O_RDONLY)\nattempt(lambda: os.open('../../etc/passwd', os.O_RDONLY, dir_fd=d))",
        "by a file handle": SYSCALL + "attempt(lambda: syscall(304, -100, b'0' * 64, 0))",
        "another's scratch folder": "import os\nif os.listdir('/scratch') != ['own'] or os.listdir('/scratch/own'): FINAL('escaped')",
        "the free space of the host's disk": "import os\nattempt(lambda: os.statvfs(os.__file__))",
        "third-party packages": "import importlib\nattempt(lambda: importlib.import_module('numpy'))",
        "through dot-dot": "attempt(lambda: open('../../../../../../../{secret}').read())",
        "by a raw open": SYSCALL + "attempt(lambda: syscall(257, -100, b'{secret}', 0, 0))",
        "raw disk": "attempt(lambda: open('/dev/vda', 'rb').read(1))",
        "kernel memory": "attempt(lambda: open('/dev/mem', 'rb').read(1))",
        "the secret in any environment": "import os\nif any('{token}' in v for v in os.environ.values()): FINAL('escaped')",
        "the secret anywhere in the heap": (
            "import gc\nneedle = '{token}'[:4] + '{token}'[4:]\n"
            "hits = [o for o in gc.get_objects() if type(o) is dict and needle in [v for v in o.values() if type(v) is str]]\n"
            "if [h for h in hits if h is not globals()]: FINAL('escaped')"
        ),
    },
    "writing": {
        "over a file of the host": "attempt(lambda: open('{secret}', 'w'))",
        "into /tmp": "attempt(lambda: open('/tmp/rlm-repl-probe', 'w'))",
        "into shared memory": "attempt(lambda: open('/dev/shm/rlm-repl-probe', 'w'))",
        "into the standard library": "import os\nattempt(lambda: open(os.path.dirname(os.__file__) + '/evil.py', 'w'))",
        "remove a file of the host": "import os\nattempt(lambda: os.unlink('{secret}'))",
        "rename a file of the host": "import os\nattempt(lambda: os.rename('{secret}', 'x'))",
        "change a mode": "import os\nopen('f', 'w').close()\nattempt(lambda: os.chmod('f', 0o777))",
        "change times": "import os\nopen('f', 'w').close()\nattempt(lambda: os.utime('f', (1, 1)))",
        "beside the scratch folder": "attempt(lambda: open('/scratch/x', 'w'))",
        "over the scratch folder itself": "import os\nattempt(lambda: os.rename('/scratch/own', '/scratch/other'))",
        "a module that others import": "import os\nattempt(lambda: open(os.path.dirname(os.__file__) + '/__pycache__/os.cpython-311.pyc', 'r+b'))",
        "a lock that others see": "import fcntl, os\nwith open(os.__file__) as f: attempt(lambda: fcntl.flock(f, fcntl.LOCK_SH))",
        "a record lock that others see": "import fcntl, os\nwith open(os.__file__) as f: attempt(lambda: fcntl.lockf(f, fcntl.LOCK_SH))",
        "an owner": "import os\nopen('f', 'w').close()\nattempt(lambda: os.chown('f', 0, 0))",
        "an attribute": "import os\nopen('f', 'w').close()\nattempt(lambda: os.setxattr('f', 'user.x', b'1'))",
        "make a pipe file": "import os\nattempt(lambda: os.mkfifo('p'))",
        "make a hard link": "import os\nopen('f', 'w').close()\nattempt(lambda: os.link('f', 'g'))",
        "more than the scratch folder": (
            "def f():\n    for n in range(100):\n        with open(f'f{{n}}', 'wb') as h: h.write(bytes(1 << 20))\nattempt(f)"
        ),
        "more files than the scratch folder": "def f():\n    for n in range(100000): open(f'f{{n}}', 'w').close()\nattempt(f)",
    },
    "network": {
        "TCP to the host": "import socket\nattempt(lambda: socket.create_connection(('127.0.0.1', {port}), 1))",
        "UDP": "import socket\nattempt(lambda: socket.socket(socket.AF_INET, socket.SOCK_DGRAM))",
        "IPv6": "import socket\nattempt(lambda: socket.socket(socket.AF_INET6))",
        "unix socket": "import socket\nattempt(lambda: socket.socket(socket.AF_UNIX))",
        "netlink": "import socket\nattempt(lambda: socket.socket(socket.AF_NETLINK, socket.SOCK_RAW))",
        "raw packets": "import socket\nattempt(lambda: socket.socket(socket.AF_PACKET, socket.SOCK_RAW))",
        "every family": (
            "import socket\nfor family in range(64):\n    try:\n        socket.socket(family)\n    except OSError:\n        pass\n"
            "    else:\n        FINAL('escaped')"
        ),
        "socket pair": "import socket\nattempt(socket.socketpair)",
        "a raw call": SYSCALL + "attempt(lambda: syscall(41, 2, 1, 0))",
        "an x32 call": SYSCALL + "attempt(lambda: syscall(0x40000000 + 41, 2, 1, 0))",
        "io_uring": SYSCALL + "attempt(lambda: syscall(425, 8, 0))",
        "urllib": "import urllib.request\nattempt(lambda: urllib.request.urlopen('http://127.0.0.1:{port}/', timeout=1))",
        "the channel as a socket": FRAME + "import socket\nattempt(lambda: socket.socket(fileno=channel()).send(b'x'))",
    },
    "signals": {
        "to the host": "import os\nattempt(lambda: os.kill({host}, 9))",
        "to the first process": "import os\nattempt(lambda: os.kill(1, 9))",
        "to every process": "import os\nattempt(lambda: os.kill(-1, 9))",
        "to the group 0": "import os\nattempt(lambda: os.killpg(0, 9))",
        "to a sibling": "import os\nfor pid in range(2, 3000):\n    if pid != os.getpid():\n        try: os.kill(pid, 0)\n"
        "        except OSError: continue\n        FINAL('escaped')",
        "to a thread of the host": SYSCALL + "attempt(lambda: syscall(234, {host}, {host}, 9))",
        "by pidfd": "import os\nattempt(lambda: os.pidfd_open({host}))",
        "by asynchronous I/O": "import fcntl, os\nr, w = os.pipe()\nattempt(lambda: fcntl.fcntl(r, fcntl.F_SETOWN, {host}))",
        "survive the parent": SYSCALL + "def f():\n    if libc.prctl(1, 0, 0, 0, 0) < 0: raise OSError('refused')\nattempt(f)",
        "to a sibling's group": "import os\nfor pid in range(1, 3000):\n    if pid != os.getpid():\n        try: os.killpg(pid, 0)\n"
        "        except OSError: continue\n        FINAL('escaped')",
        "by a queue": SYSCALL + "attempt(lambda: syscall(129, {host}, 9, 0))",
        "see the processor time of another": (
            "import os, time\nfor pid in range(1, 3000):\n    for kind in (0, 1, 2, 6):\n        if pid == os.getpid(): continue\n"
            "        try: time.clock_gettime(~pid << 3 | kind)\n        except OSError: continue\n        FINAL('escaped')"
        ),
        "see the processors of another": (
            "import os\nfor pid in range(1, 3000):\n    if pid == os.getpid(): continue\n"
            "    try: os.sched_getaffinity(pid)\n    except OSError: continue\n    FINAL('escaped')"
        ),
        "see the limits of another": "import os, resource\nattempt(lambda: resource.prlimit(os.getppid() or 1, resource.RLIMIT_AS))",
        "see the group of another": "import os\nattempt(lambda: os.getpgid(1))",
        "an alarm for later": "import signal\nattempt(lambda: signal.setitimer(signal.ITIMER_REAL, 100))",
    },
    "memory": {
        "a huge array": "attempt(lambda: bytearray(4 << 30))",
        "a growing list": "x = []\ndef f():\n    while True: x.append(bytes(1 << 20))\nattempt(f)",
        "a growing text": "def f():\n    s = 'x'\n    while True: s += s\nattempt(f)",
        "anonymous mappings": "import mmap\nkeep = []\ndef f():\n    while True: keep.append(mmap.mmap(-1, 64 << 20))\nattempt(f)",
        "a memory file": "import os\nattempt(lambda: os.memfd_create('x'))",
        "System V memory": SYSCALL + "attempt(lambda: syscall(29, 0, 1 << 20, 0o1600))",
        "memory of the host": SYSCALL + "attempt(lambda: syscall(310, {host}, 0, 0, 0, 0, 0))",
        "trace the host": SYSCALL + "attempt(lambda: syscall(101, 16, {host}, 0, 0))",
        "page faults in user space": SYSCALL + "attempt(lambda: syscall(323, 0))",
        "lock memory": SYSCALL + "attempt(lambda: syscall(151, 1))",
        "a raised limit": "import resource\nattempt(lambda: resource.setrlimit(resource.RLIMIT_AS, (-1, -1)))",
        "merge equal pages": "import mmap\nattempt(lambda: mmap.mmap(-1, 1 << 16).madvise(12))",
        "poison a page": "import mmap\nattempt(lambda: mmap.mmap(-1, 1 << 16).madvise(100))",
        "huge shared mapping": "import mmap\nattempt(lambda: mmap.mmap(-1, 4 << 30, flags=mmap.MAP_SHARED | mmap.MAP_ANONYMOUS))",
        "a huge integer": "attempt(lambda: 1 << (8 << 32))",
        "drop a library from the page cache": "import os\nwith open(os.__file__) as f: attempt(lambda: os.posix_fadvise(f.fileno(), 0, 0, 4))",
        "a deep structure": "x = []\nfor _ in range(10**6): x = [x]\nattempt(lambda: repr(x))\nx = None",
    },
    "fork": {
        "fork": "import os\nattempt(os.fork)",
        "fork bomb": "import os\ndef f():\n    while True: os.fork()\nattempt(f)",
        "subprocess": "import subprocess\nattempt(lambda: subprocess.run(['/bin/sh', '-c', 'id']))",
        "os.system": "import os\nif os.system('true') == 0: FINAL('escaped')",
        "multiprocessing": "import multiprocessing\nattempt(lambda: multiprocessing.Process(target=print).start())",
        "posix_spawn": "import os\nattempt(lambda: os.posix_spawn('/bin/true', ['true'], {{}}))",
        "vfork": SYSCALL + "attempt(lambda: syscall(58))",
        "clone": SYSCALL + "attempt(lambda: syscall(56, 17, 0, 0, 0, 0))",
        "clone with a shared memory only": SYSCALL + "attempt(lambda: syscall(56, 0x100 | 17, 0, 0, 0, 0))",
        "a program from memory": "import os\ndef f():\n    fd = os.memfd_create('x')\n    os.execve(fd, ['x'], {{}})\nattempt(f)",
        "a program in the scratch folder": (
            "import os, sys\nwith open('x', 'wb') as f: f.write(b'#!/bin/sh\\nid')\nattempt(lambda: os.execv('./x', ['x']))"
        ),
        "a library of its own": (
            "import ctypes, shutil, sysconfig, os\nopen('x.so', 'wb').write(b'\\x7fELF' + bytes(60))\nattempt(lambda: ctypes.CDLL('./x.so'))"
        ),
        "exec": "import os, sys\nattempt(lambda: os.execv(sys.executable, ['python']))",
        "new namespaces": SYSCALL + "attempt(lambda: syscall(272, 0x10000000))",
    },
    "threads": {
        "ten thousand": (
            "import threading\nstop = threading.Event()\nn = 0\ntry:\n    while n < 10000:\n"
            "        threading.Thread(target=stop.wait, daemon=True).start()\n        n += 1\nexcept RuntimeError as error:\n"
            "    print(error)\nif n > 40: FINAL('escaped')"
        ),
        "one that goes on after the block": (
            "import threading, time\ndef f():\n    while True: time.sleep(0.01)\n"
            "threading.Thread(target=f, daemon=True).start()"
        ),
        "spinning threads": (
            "import threading\ndef f():\n    while True: pass\n"
            "for _ in range(4): threading.Thread(target=f, daemon=True).start()"
        ),
        "one that writes when the block is over": (
            FRAME + "import threading, time\nc = channel()\ndef f():\n    time.sleep(0.03)\n"
            "    os.write(c, frame(dict(op='result', seq=2, stdout='forged', error=None, has_final=False)))\n"
            "threading.Thread(target=f, daemon=True).start()"
        ),
        "one at exit": "import atexit, os\natexit.register(os.abort)\nimport threading\nthreading.Thread(target=lambda: os._exit(3)).start()",
        "a deadlock": "import threading\nlock = threading.Lock()\nlock.acquire()\nlock.acquire()",
        "a lock with priority": SYSCALL + "word = (ctypes.c_uint * 4)()\nattempt(lambda: syscall(202, word, 6 | 128, 0, 0, 0, 0))",
        "raw threads with odd flags": SYSCALL + "attempt(lambda: syscall(56, 0x00010f00 | 0x80000000, 0, 0, 0, 0))",
        "sub-calls after the block": (
            "import threading, time\ndef f():\n    time.sleep(0.05)\n    try: llm_query('x')\n    except Exception: pass\n"
            "threading.Thread(target=f, daemon=True).start()"
        ),
    },
    "output": {
        "endless lines": "while True: print('x' * 1000)",
        "one huge line": "print('x' * 200_000_000)",
        "a huge value": "'x' * 100_000_000",
        "endless raw output": "import os\ndef f():\n    while True: os.write(1, bytes(4096))\nattempt(f)",
        "binary": "import sys\nsys.stdout.buffer.write(bytes(range(256)) * 1000)",
        "lone surrogates": "print('\\ud800' * 10)\nFINAL(['\\ud800'])",
        "many small writes": "for _ in range(300_000): print('', end='x')",
        "closed stdout": "import sys\nsys.stdout.close()",
        "a replaced stdout": "import sys\nclass Evil:\n    def write(self, text): raise SystemExit\nsys.stdout = sys.stderr = Evil()\nprint(1)",
        "control characters": "print('\\x1b[2J\\x00\\x07')",
    },
    "time": {
        "a loop": "while True: pass",
        "a loop that catches everything": "while True:\n    try:\n        while True: pass\n    except BaseException: pass",
        "a regular expression in C": "import re\nre.match(r'(a+)+$', 'a' * 64 + 'b')",
        "a sum in C": "sum(range(10**12))",
        "a power in C": "x = 7 ** (7 ** 10)",
        "sleep": "import time\ntime.sleep(10**6)",
        "a lock in C": "import _thread\nl = _thread.allocate_lock()\nl.acquire()\nl.acquire()",
        "blocked signals": "import signal, time\nsignal.pthread_sigmask(signal.SIG_BLOCK, range(1, 65))\nwhile True: time.sleep(1)",
        "a slow repr": "class A:\n    def __repr__(self):\n        while True: pass\nA()",
        "a slow exception": "class E(Exception):\n    def __str__(self):\n        while True: pass\nraise E",
        "input": "input()",
        "wait for a signal": "import signal\nsignal.sigwait([signal.SIGUSR1])",
    },
    "descriptors": {
        "close them all": "import os\nos.closerange(0, 64)",
        "replace the channel": "import os\nr, w = os.pipe()\nfor n in range(3, 20):\n    if n not in (r, w): os.dup2(r, n)",
        "open without end": "keep = []\nimport os\ndef f():\n    while True: keep.append(os.pipe())\nattempt(f)",
        "use what is inherited": (
            "import os, stat\nopen_ones = []\nfor n in range(3, 4096):\n    try: kind = os.fstat(n).st_mode\n    except OSError: continue\n"
            "    open_ones.append((n, stat.S_IFMT(kind)))\n"
            "if any(kind in (stat.S_IFREG, stat.S_IFDIR, stat.S_IFBLK) for _, kind in open_ones) or len(open_ones) > 2: FINAL('escaped')"
        ),
        "read from the channel": FRAME + "import os\nos.read(channel(), 100)",
        "a channel that does not block": FRAME + "import os\nos.set_blocking(channel(), False)",
        "raise the limit": "import resource\nattempt(lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (4096, 4096)))",
        "a bigger pipe": "import fcntl, os\nr, w = os.pipe()\nattempt(lambda: fcntl.fcntl(w, 1031, 1 << 20))",
        "push into the terminal": "import fcntl\nattempt(lambda: fcntl.ioctl(0, 0x5412, b'x'))",
    },
    "breakage": {
        "no builtins": "import builtins\nfor n in list(vars(builtins)): delattr(builtins, n)",
        "no modules": "import sys\nsys.modules.clear()",
        "broken json and os": "import json, os\njson.dumps = json.loads = os.read = os.write = None",
        "broken threading": "import threading\nthreading.Condition.wait = threading.Condition.__enter__ = None",
        "an empty namespace": "globals().clear()",
        "a null pointer": "import ctypes\nctypes.string_at(0)",
        "None overwritten": "import ctypes\nctypes.memset(id(None), 0, 16)",
        "endless recursion": "import sys\nsys.setrecursionlimit(10**9)\ndef f(): return f()\nf()",
        "recursion in C": "import sys\nsys.setrecursionlimit(10**9)\nx = []\nx.append(x)\nclass A:\n    def __getattr__(self, n): return getattr(self, n)\nA().x",
        "sys.exit": "import sys\nsys.exit(3)",
        "os._exit": "import os\nos._exit(0)",
        "abort": "import os\nos.abort()",
        "kill itself": "import os\nos.kill(os.getpid(), 9)",
        "a trace function": "import sys\ndef t(*a):\n    raise SystemExit\nsys.settrace(t)\nsys.setprofile(t)",
        "a hostile exception": "class E(BaseException):\n    def __str__(self): raise E\n    __repr__ = __str__\nraise E",
        "a hostile repr": "class A:\n    def __repr__(self): return 3\nA()",
        "null bytes": "x = 1\x00",
        "deep brackets": "(" * 100_000,
        "deep code": "x = " + "-" * 200_000 + "1",
        "the worker's own frames": (
            "import sys\nframe = sys._getframe()\nwhile frame:\n    for name in list(frame.f_locals):\n"
            "        if name == 'self': frame.f_locals['self'].__dict__.clear()\n    frame = frame.f_back"
        ),
        "reserved names": "context = FINAL = FINAL_VAR = llm_query = rlm_query = search = None",
    },
    "forgery": {
        "junk": FRAME + "os.write(channel(), b'junk' * 100)",
        "a huge length": FRAME + "os.write(channel(), b'\\xff\\xff\\xff\\x7f')",
        "half a frame": FRAME + "os.write(channel(), (1000).to_bytes(4, 'little') + b'x')",
        "not an object": FRAME + "os.write(channel(), frame([1, 2]))",
        "deep JSON": FRAME + "os.write(channel(), (200000).to_bytes(4, 'little') + b'[' * 200000)",
        "a result in advance": FRAME + "os.write(channel(), frame(dict(op='result', seq=2, stdout='forged', error=None, has_final=True, final='forged')))",
        "a result that is no result": FRAME + "os.write(channel(), frame(dict(op='result', seq=1, stdout=[1], error=5, has_final='x')))",
        "an unknown message": FRAME + "os.write(channel(), frame(dict(op='shutdown')))",
        "a failed worker": FRAME + "os.write(channel(), frame(dict(op='failed', error='x')))",
        "an unknown sub-call": FRAME + "os.write(channel(), frame(dict(op='call', id=1, name='__import__', args=dict(prompt='os'))))",
        "a sub-call with odd arguments": FRAME + "os.write(channel(), frame(dict(op='call', id=1, name='llm_query', args=[1])))",
        "a sub-call with an odd number": FRAME + "os.write(channel(), frame(dict(op='call', id=dict(), name='llm_query', args=dict(prompt='x'))))",
        "a flood of refused sub-calls": (
            FRAME + "c = channel()\nwhile True:\n    os.write(c, frame(dict(op='call', id=1, name='llm_query', args=dict(prompt=''))))\n    os.read(c, 4096)"
        ),
        "a flood of hellos": FRAME + "c = channel()\nwhile True: os.write(c, frame(dict(op='hello')))",
        "a frame byte by byte": FRAME + "c = channel()\nos.write(c, (1 << 20).to_bytes(4, 'little'))\nwhile True: os.write(c, b' ')",
        "ten million lists": (
            FRAME + "body = b'{{\"op\": \"call\", \"id\": 1, \"name\": \"rlm_query\", \"args\": {{\"prompt\": \"x\", \"context\": {{\"a\": [' + b'[],' * 10**7 + b'0]}}}}}}'\n"
            "os.write(channel(), len(body).to_bytes(4, 'little'))\nview = memoryview(body)\nwhile view: view = view[os.write(channel(), view):]"
        ),
        "a program in a pickle": (
            "import os, pickle\nclass Evil:\n    def __reduce__(self): return os.system, ('touch /tmp/rlm-repl-probe',)\n"
            "FINAL(pickle.dumps(Evil()).decode('latin1') and None)\nattempt(lambda: FINAL(Evil()))"
        ),
        "a str that lies": (
            "class S(str):\n    def encode(self, *a): return b'escaped'\n    def __iter__(self): return iter('escaped')\n    __str__ = __repr__ = lambda self: 'escaped'\n"
            "try: llm_query(S('x'))\nexcept Exception: pass\nFINAL([S('?')])"
        ),
        "the channel's own methods": (
            "import gc\nfor o in gc.get_objects():\n    if type(o).__name__ == 'Channel':\n"
            "        o.send(dict(op='result', seq=9, stdout='', error=None, has_final=True, final='escaped'))"
        ),
        "a flood of sub-calls": FRAME + "c = channel()\nfor n in range(100000): os.write(c, frame(dict(op='call', id=n, name='llm_query', args=dict(prompt='x'))))",
        "the end of the worker": FRAME + "os.write(channel(), b'\\xffRLMEND\\xff' + bytes(4))",
        "a hello": FRAME + "os.write(channel(), frame(dict(op='hello')) + frame(dict(op='ready')))",
        "NaN": FRAME + "body = b'{{\"op\": NaN}}'\nos.write(channel(), len(body).to_bytes(4, 'little') + body)",
    },
}  # fmt: skip
