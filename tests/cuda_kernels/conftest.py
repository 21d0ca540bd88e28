"""The kernel tests' devices."""
import kernel_devices
import pytest


@pytest.fixture
def device(device):
    """The device on which `kernel_devices.call` runs kernels."""
    with kernel_devices.on(device):
        yield device


@pytest.fixture(scope="session", autouse=True)
def no_memory_is_left():
    yield
    kernel_devices.free_memory()
