"""What the kernels' C sources say: their exported functions, as the preprocessor leaves them, and their constants."""
import ast
import ctypes
import glob
import os
import re
import shlex
import subprocess
from concurrent.futures import ThreadPoolExecutor

from sok1x.cuda_kernels import build_host

FOLDER = os.path.realpath(build_host.HERE)
HOST, GPU = "host", "GPU"

# C's types, once typedefs are resolved, and the ctypes type with which `declare` states each.
_PASSED = {"void": None, "int": ctypes.c_int32, "int32_t": ctypes.c_int32, "long long": ctypes.c_int64,
           "int64_t": ctypes.c_int64, "unsigned long long": ctypes.c_uint64, "uint64_t": ctypes.c_uint64,
           "float": ctypes.c_float, "double": ctypes.c_double}

_EXPORTED = re.compile(r'\bextern\s+"C"')
_FUNCTION = re.compile(
    r'\s*(?:__attribute__\s*\(\(\s*visibility\s*\(\s*"default"\s*\)\s*\)\)|__global__)\s*'
    r'(?P<result>\w[\w\s*]*?)\s*(?:__launch_bounds__\s*\([^()]*\)\s*)?\bsok1x_(?P<name>\w+)\s*\((?P<parameters>[^()]*)\)\s*(?P<end>[{;])')
_TYPEDEF = re.compile(r"\btypedef\s+([\w ]+?)\s+(\w+)\s*;")
_QUALIFIER = re.compile(r"\b(?:const|volatile|__restrict__|static)\b")
_SYSTEM_INCLUDE = re.compile(r"^[ \t]*#[ \t]*include[ \t]*<([^>\n]+)>", re.MULTILINE)
_C_COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)
_INTEGER = re.compile(r"\b(0[xX][0-9a-fA-F]+|\d+)[uUlL]*\b")


class Function:
    """A function that a source exports: its ctypes result and argument types as `declare` has them, and its body."""

    def __init__(self, result, arguments, body):
        self.result, self.arguments, self.body = result, arguments, body


def families(folder=FOLDER):
    """The names of all NAME.cu, sorted."""
    return sorted(os.path.basename(path)[:-3] for path in glob.glob(os.path.join(folder, "*.cu")))


def read(name):
    """A file of cuda_kernels as text."""
    with open(os.path.join(FOLDER, name)) as file:
        return file.read()


def functions_of_all(stubs, folder=FOLDER):
    """{(family, HOST or GPU): {name without `sok1x_`: Function}} of every .cu in a folder.

    Args:
        stubs: an empty folder that will stand for the system's include directories.
        folder: that of the sources, which may include headers of cuda_kernels.
    """
    for path in glob.glob(os.path.join(folder, "*.[ch]*")) + glob.glob(os.path.join(FOLDER, "*.[ch]*")):
        with open(path) as file:
            for header in _SYSTEM_INCLUDE.findall(file.read()):
                os.makedirs(os.path.dirname(os.path.join(stubs, header)), exist_ok=True)
                open(os.path.join(stubs, header), "w").close()
    forms = [(family, form) for family in families(folder) for form in (HOST, GPU)]
    with ThreadPoolExecutor(4) as pool:
        texts = pool.map(lambda form: preprocessed(os.path.join(folder, form[0] + ".cu"), form[1], stubs), forms)
        return {form: functions(text) for form, text in zip(forms, texts)}


def preprocessed(path, form, stubs):
    """A source's text without comments, with its own headers in it, macros expanded, conditions decided."""
    command = shlex.split(os.environ.get("CXX", "g++")) + ["-E", "-P", "-nostdinc", "-isystem", stubs, "-I", FOLDER]
    command += ["-D__CUDACC__"] if form == GPU else []
    done = subprocess.run(command + ["-x", "c++", path], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                          universal_newlines=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


def functions(text):
    """{name: Function} of a preprocessed text.

    Raises:
        ValueError: something is exported in a form that is not understood here, or its C types have no ctypes type.
    """
    aliases = {alias: " ".join(meaning.split()) for meaning, alias in _TYPEDEF.findall(text)}
    found = {}
    for exported in _EXPORTED.finditer(text):
        match = _FUNCTION.match(text, exported.end())
        if not match:
            raise ValueError("not understood: " + text[exported.start():exported.start() + 120])
        if match.group("end") == ";":  # declared here, exported by another source
            continue
        name, parameters = match.group("name"), match.group("parameters").strip()
        if name in found:
            raise ValueError("twice: sok1x_" + name)
        arguments = [] if parameters in ("", "void") else [
            passed_as(parameter, aliases) for parameter in parameters.split(",")]
        found[name] = Function(passed_as(match.group("result"), aliases), arguments, _block(text, match.end() - 1))
    return found


def passed_as(declaration, aliases):
    """The ctypes type of a parameter (or a result, which has no name), None for void."""
    if "*" in declaration:
        return ctypes.c_void_p
    words = _QUALIFIER.sub(" ", declaration).split()
    for kind in (" ".join(words), " ".join(words[:-1])):  # without its name, with its name
        kind = aliases.get(kind, kind)
        if kind in _PASSED:
            return _PASSED[kind]
    raise ValueError("no ctypes type stands for: " + declaration.strip())


def _block(text, begin):
    """The text from an opening brace to the one that closes it."""
    depth = 0
    for brace in re.compile("[{}]").finditer(text, begin):
        depth += 1 if brace.group() == "{" else -1
        if depth == 0:
            return text[begin:brace.end()]
    raise ValueError("a brace is not closed")


def constant(file, name):
    """The value of `#define NAME ...`, or of a const NAME, in a C file of cuda_kernels; a whole number.

    Raises:
        ValueError: it is defined not once, or not by integers and other such constants of the file.
    """
    text = _C_COMMENT.sub("", read(file))
    found = (re.findall(r"^[ \t]*#[ \t]*define[ \t]+{}[ \t]+(.+)$".format(name), text, re.MULTILINE)
             + re.findall(r"\bconst\s+(?:\w+\s+)+{}\s*=\s*([^,;]+)".format(name), text))
    if len(found) != 1:
        raise ValueError("{} has {} definitions of {}".format(file, len(found), name))
    expression = _INTEGER.sub(r"\1", found[0])
    others = {other: constant(file, other) for other in set(re.findall(r"\b[A-Za-z_]\w*\b", expression))}
    return int(eval(expression, {"__builtins__": {}}, others))


def enumeration(file, name):
    """{name: number} of an enum whose numbers are all written out."""
    members = re.search(r"\benum\s+{}\s*{{([^}}]*)}}".format(name), _C_COMMENT.sub("", read(file))).group(1)
    return {member.strip(): ast.literal_eval(number.strip())
            for member, number in (one.split("=") for one in members.split(",") if one.strip())}


def twins(file, text):
    """The files in the other language that a file's comments and docstrings name: `as in FILE`."""
    return set(re.findall(r"\b[Aa]s in ({})\b".format(_other_language(file)), _running(text)))


def twins_in_other_words(file, text):
    """Comments that speak of an equal number in the other language, and do not say `as in FILE`."""
    return re.findall(r"{0}(?:'s \w+)? (?:has the same|have the same|has as many|counts on)\b"
                      r"|(?:as many as|the same as|[Ll]ike|equal to) (?:in )?{0}\b".format(_other_language(file)),
                      _running(text))


def _other_language(file):
    return r"\b\w+\.(?:cuh|cu|h)" if file.endswith(".py") else r"\b\w+\.py"


def _running(text):
    """A text without line breaks and the marks of comments."""
    return re.sub(r"\s+(?:(?://|#)\s*)?", " ", text)
