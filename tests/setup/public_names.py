"""The public names of sok1x: what `__all__` lists, and the methods and properties that those classes define."""
import importlib
import inspect
import pkgutil

INNER = ("graph_ops", "cuda_kernels", "launch")


def modules():
    """Every module of the public package, the inner folders left out."""
    package = importlib.import_module("sok1x")
    found = {"sok1x": package}
    for info in pkgutil.walk_packages(package.__path__, "sok1x."):
        if info.name.split(".")[1] not in INNER and not info.name.endswith(".__main__"):
            found[info.name] = importlib.import_module(info.name)
    return found


def _of_ours(value):
    return (getattr(value, "__module__", None) or "").split(".")[0] == "sok1x"


def public():
    """{dotted name: function, class or property}, each once; plain values such as `__version__` are left out."""
    found, seen = {}, set()
    for module_name, module in modules().items():
        for name in getattr(module, "__all__", ()):
            value = getattr(module, name)
            if not (inspect.isroutine(value) or inspect.isclass(value)) or id(value) in seen:
                continue
            seen.add(id(value))
            found[module_name + "." + name] = value
            if inspect.isclass(value):
                for method, member in _members(value).items():
                    found["{}.{}.{}".format(module_name, name, method)] = member
    return found


def _members(cls):
    """Public methods and properties that a class of ours, or a base of it that is ours, defines."""
    members = {}
    for base in reversed([base for base in cls.__mro__ if _of_ours(base)]):
        for name, member in vars(base).items():
            member = member.__func__ if isinstance(member, (classmethod, staticmethod)) else member
            if not name.startswith("_") and (inspect.isroutine(member) or isinstance(member, property)):
                members[name] = member
    return members
