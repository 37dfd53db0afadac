"""Attacks on files, network and processes, as the code that a submission would hold.

Each raises an exception, or dies, if something stops it. What it may use:

    secret      a file that only the grader may read, in the folder `outside`
    library     a file in a folder that learners' code may read, but not change
    victim      the id of another process of the same user
    call        a system call by name, for what Python has no function for
"""

from __future__ import annotations

import re

FILES = {
    "read a file": "open(secret).read()",
    "list a folder": "os.listdir(outside)",
    "read through /proc/self/root": "open('/proc/self/root' + secret).read()",
    "read through an O_PATH descriptor": """
        descriptor = os.open(outside, os.O_PATH)
        open(os.open('secret', os.O_RDONLY, dir_fd=descriptor)).read()""",
    "reopen a descriptor through /proc": """
        descriptor = os.open(secret, os.O_PATH)
        open(f'/proc/self/fd/{descriptor}').read()""",
    "read from another working directory": "os.chdir(outside); open('secret').read()",
    "read through a symbolic link": "os.symlink(secret, 'link'); open('link').read()",
    "read through a hard link": "os.link(secret, 'link'); open('link').read()",
    "move a file to oneself": "os.rename(secret, 'mine'); open('mine').read()",
    "exchange a file with one's own": """
        open('mine', 'w').close()
        call('renameat2', -100, secret.encode(), -100, b'mine', 2)""",
    "open by handle": """
        handle, mount = (ctypes.c_uint32 * 34)(128), ctypes.c_int()
        call('name_to_handle_at', -100, secret.encode(), handle, ctypes.byref(mount), 0)""",
    "ask for the newer way to open": """
        how = (ctypes.c_uint64 * 3)(os.O_RDONLY)
        call('openat2', -100, secret.encode(), how, ctypes.sizeof(how))""",
    "write a new file": "open(outside + '/new', 'w').write('x')",
    "append to a file": "open(secret, 'a').write('x')",
    "write to the folder of all": "open('../new', 'w').write('x')",
    "write to the library": "open(library, 'r+').write('x')",
    "empty a file by path": "os.truncate(library, 0)",
    "empty a file opened for reading": "os.open(library, os.O_RDONLY | os.O_TRUNC)",
    "empty a file opened for neither": "os.open(secret, 3 | os.O_TRUNC)",
    "make a file executable": "os.chmod(secret, 0o777)",
    "change the mode of an open file": "os.fchmod(os.open(library, os.O_RDONLY), 0o777)",
    "change the mode, newer": "call('fchmodat2', -100, secret.encode(), 0o777, 0)",
    "give a file away": "os.chown(secret, os.getuid(), os.getgid())",
    "date a file back": "os.utime(secret, (0, 0))",
    "date an open file back": "os.utime(os.open(library, os.O_RDONLY), (0, 0))",
    "set an attribute": "os.setxattr(secret, 'user.note', b'x')",
    "set an open file's attribute": "os.setxattr(os.open(library, 0), 'user.note', b'x')",
    "read attributes": "os.listxattr(secret)",
    "delete a file": "os.unlink(secret)",
    "make a folder": "os.mkdir(outside + '/new')",
    "make a pipe for others": "os.mkfifo('pipe')",
    "watch others' files": """
        watch = call('inotify_init1', 0)
        call('inotify_add_watch', watch, outside.encode(), 0xfff)""",
    "be told of changes to a folder": """
        fcntl.fcntl(os.open(os.path.dirname(library), os.O_RDONLY), fcntl.F_NOTIFY, 2)""",
    "lease a file": "fcntl.fcntl(os.open(library, 0), fcntl.F_SETLEASE, fcntl.F_RDLCK)",
    "lock a file that others read": "fcntl.flock(os.open(library, 0), fcntl.LOCK_EX)",
    "queue a read in the kernel": "call('io_uring_setup', 4, (ctypes.c_uint32 * 40)())",
    "reserve disk space": "os.posix_fallocate(os.open('f', os.O_CREAT | os.O_RDWR), 0, 1 << 20)",
    "a file system of one's own": """
        call('unshare', 0x10000000 | 0x20000)
        check(libc.mount(b'none', b'/', b'tmpfs', 0, None))""",
}

NETWORK = {
    "a connection over IPv4": "socket.socket(socket.AF_INET, socket.SOCK_STREAM)",
    "a datagram over IPv6": "socket.socket(socket.AF_INET6, socket.SOCK_DGRAM)",
    "the kernel's routing table": "socket.socket(socket.AF_NETLINK, socket.SOCK_RAW)",
    "a local socket": "socket.socket(socket.AF_UNIX)",
    "a local datagram": "socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)",
    "a pair that can send to a path": "socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)",
    "a pair of packets": "socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)",
    "an address that others can write to": """
        mine, _ = socket.socketpair()
        mine.bind(b'\\0name')""",
    "an open file handed on": """
        mine, _ = socket.socketpair()
        socket.send_fds(mine, [b'x'], [0])""",
}

PROCESSES = {
    "fork": """
        if os.fork() == 0:
            os._exit(0)""",
    "vfork": "os.posix_spawn('/bin/true', ['true'], {})",
    "a shell": """
        if os.system('true'):
            raise PermissionError""",
    "a program": "import subprocess; subprocess.run([sys.executable, '-c', ''], check=True)",
    "a process by clone": """
        if call('clone', signal.SIGCHLD, 0, 0, 0, 0) == 0:
            os._exit(0)""",
    "a process by clone3": """
        arguments = (ctypes.c_uint64 * 11)()
        arguments[4] = signal.SIGCHLD
        if call('clone3', arguments, ctypes.sizeof(arguments)) == 0:
            os._exit(0)""",
    "become another program": "os.execv('/bin/true', ['true'])",
    "run code from memory": """
        descriptor = os.memfd_create('program')
        os.write(descriptor, b'#!/bin/true')
        os.execve(f'/proc/self/fd/{descriptor}', ['true'], {})""",
    "a signal": "os.kill(victim, signal.SIGCONT)",
    "a signal to everybody": "os.kill(-1, 0)",
    "a signal to a thread": "call('tgkill', victim, victim, signal.SIGCONT)",
    "a signal to any thread": "call('tkill', victim, signal.SIGCONT)",
    "a signal with a message": """
        message = (ctypes.c_int32 * 32)(signal.SIGCONT, 0, -1)
        call('rt_sigqueueinfo', victim, signal.SIGCONT, message)""",
    "a signal through a descriptor": """
        signal.pidfd_send_signal(os.pidfd_open(victim), signal.SIGCONT)""",
    "a signal from a socket": """
        mine, _ = socket.socketpair()
        fcntl.fcntl(mine, fcntl.F_SETOWN, victim)""",
    "a chosen signal from a socket": """
        mine, _ = socket.socketpair()
        fcntl.fcntl(mine, fcntl.F_SETSIG, signal.SIGCONT)""",
    "a signal from a socket, by thread": """
        mine, _ = socket.socketpair()
        fcntl.fcntl(mine, 15, (victim << 32).to_bytes(8, 'little'))""",
    "a signal from a socket, older": """
        mine, _ = socket.socketpair()
        fcntl.ioctl(mine, 0x8901, victim.to_bytes(4, 'little'))""",
    "a signal from a socket, oldest": """
        mine, _ = socket.socketpair()
        fcntl.ioctl(mine, 0x8902, victim.to_bytes(4, 'little'))""",
    "limits of another": """
        import resource
        resource.prlimit(victim, resource.RLIMIT_CORE, (0, 0))""",
    "another's processors": "os.sched_setaffinity(victim, os.sched_getaffinity(victim))",
    "another's priority": "os.setpriority(os.PRIO_PROCESS, victim, 1)",
    "another's disk priority": "call('ioprio_set', 1, victim, 2 << 13)",
    "trace another": "call('ptrace', 0x4206, victim, 0, 0)",
    "read another's memory": "open(f'/proc/{victim}/mem', 'rb')",
    "read another's environment": "open(f'/proc/{victim}/environ', 'rb').read()",
    "read another's command line": "open(f'/proc/{victim}/cmdline', 'rb').read()",
    "follow another's files": "os.readlink(f'/proc/{victim}/cwd')",
    "copy from another's memory": """
        here = ctypes.create_string_buffer(8)
        vector = (ctypes.c_uint64 * 2)(ctypes.addressof(here), 0)
        call('process_vm_readv', victim, vector, 1, vector, 1, 0)""",
    "copy to another's memory": """
        here = ctypes.create_string_buffer(8)
        vector = (ctypes.c_uint64 * 2)(ctypes.addressof(here), 0)
        call('process_vm_writev', victim, vector, 1, vector, 1, 0)""",
    "compare with another": "call('kcmp', os.getpid(), victim, 1, 0, 0)",
    "another's descriptors": "call('pidfd_getfd', os.pidfd_open(victim), 0, 0)",
    "another's namespaces": "call('setns', os.pidfd_open(victim), 0x20000)",
    "namespaces of one's own": "call('unshare', 0x10000000)",
    "faults handled in user space": "call('userfaultfd', 1)",
    "a key in the kernel": "call('add_key', b'user', b'name', b'x', 1, -3)",
    "another architecture's layout": "call('personality', 0x0040000)",
    "a program in the kernel": "call('bpf', 0, (ctypes.c_uint32 * 16)(1, 4, 4, 1), 64)",
    "outlive the parent": "check(libc.prctl(1, 0, 0, 0, 0))",
}

_CALLS = re.compile(r"call\('(\w+)'")

ALL = FILES | NETWORK | PROCESSES


def system_calls(source: str) -> tuple[str, ...]:
    """Return the names of the system calls that an attack makes by number."""
    return tuple(_CALLS.findall(source))
