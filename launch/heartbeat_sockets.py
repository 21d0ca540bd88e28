"""The sockets of heartbeat.py: where a host's first rank listens, how ranks connect, how the kernel watches."""
import errno
import fcntl
import secrets
import socket
import struct

# Both ends of a connection begin with this, the job's token, who speaks and to whom.
_MAGIC = b"sok1x 2\n"
TOKEN_BYTES = 16
_HELLO = struct.Struct("<{}s{}sii".format(len(_MAGIC), TOKEN_BYTES))
HELLO_BYTES = _HELLO.size
HELLO_SECONDS = 5.0
_SIOCGIFADDR = 0x8915
_INTERFACE_BYTES = 40
# How many times the kernels ask within `seconds`.
_QUESTIONS = 6
_MOST_PROBES = 127


def interval(seconds):
    """Seconds (int) between two questions of the kernel, which counts whole ones."""
    return max(1, int(seconds / _QUESTIONS))


def watch_over(connection, seconds):
    """Has the kernel end a connection whose other end has not answered for `seconds`, or `interval` more."""
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, interval(seconds))
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, interval(seconds))
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPCNT, _MOST_PROBES)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, int(1000 * seconds))


def addresses():
    """The IPv4 and IPv6 addresses of this host's interfaces, as text; those that no other host can reach left out."""
    found = []
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asking:
        for _, name in socket.if_nameindex():
            try:
                answer = fcntl.ioctl(asking, _SIOCGIFADDR, struct.pack("{}s".format(_INTERFACE_BYTES), name.encode()))
            except OSError:  # it has none
                continue
            found.append(socket.inet_ntoa(answer[20:24]))
    try:
        with open("/proc/net/if_inet6") as file:
            found += [socket.inet_ntop(socket.AF_INET6, bytes.fromhex(line.split()[0])) for line in file]
    except OSError:
        pass
    return [address for address in found if not address.startswith(("127.", "fe80:")) and address != "::1"]


class Listener:
    """Where a host's first rank hears of the others. `place` is what these must know: {addresses, port}, for JSON."""

    def __init__(self, port):
        self.socket = _listening(port)
        self.place = {"addresses": addresses(), "port": self.socket.getsockname()[1]}


def _listening(port):
    try:
        listening = socket.socket(socket.AF_INET6)
        listening.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
        anywhere = "::"
    except OSError:  # a kernel without IPv6
        listening, anywhere = socket.socket(socket.AF_INET), "0.0.0.0"
    try:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind((anywhere, port))
        listening.listen(1024)
        listening.setblocking(False)
    except OSError:
        listening.close()
        raise
    return listening


def hello(token, rank, other):
    """What both ends of a connection say first (bytes [HELLO_BYTES]): rank to the other one."""
    return _HELLO.pack(_MAGIC, token, rank, other)


def rank_of(said, token, rank):
    """The rank that has said this to `rank`; None where it does not know the job's token, and so is no rank, or where
    it means another one."""
    if len(said) != HELLO_BYTES:
        return None
    magic, known, speaker, meant = _HELLO.unpack(said)
    return speaker if magic == _MAGIC and secrets.compare_digest(known, token) and meant == rank else None


def connect(place, token, rank, other, seconds):
    """A connection to the rank whose Listener's place this is, or None: not now.

    Args:
        place: {addresses, port}.
        token: The job's (bytes [16]).
        rank: This rank.
        other: That rank.
        seconds: As of `watch_over`.
    """
    for address in place["addresses"]:
        try:
            connection = socket.create_connection((address, place["port"]), HELLO_SECONDS)
        except OSError:
            continue
        try:
            # This host, or another, may have the same address in a network of its own, and ranks there that listen at
            # the same port: only the one that is meant answers.
            connection.sendall(hello(token, rank, other))
            if rank_of(_exactly(connection, HELLO_BYTES), token, rank) == other:
                watch_over(connection, seconds)
                connection.setblocking(False)
                return connection
        except OSError:
            pass
        connection.close()
    return None


def closed_by_peer(error):
    """Whether a connection ended because the other end's process did: an OSError, or None where it was closed."""
    return error is None or error.errno in (errno.ECONNRESET, errno.EPIPE)


def _exactly(connection, count):
    data = b""
    while len(data) < count:
        came = connection.recv(count - len(data))
        if not came:
            break
        data += came
    return data
