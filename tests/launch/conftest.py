"""What launch tests share: ways.py, and that programs exchange host memory unless a test says otherwise."""
import pytest
import ways


@pytest.fixture(autouse=True)
def host_memory(monkeypatch):
    monkeypatch.setenv("SOK1X_TEST_DEVICE", "host")


@pytest.fixture(scope="session")
def stand_in_library():
    return ways.stand_in_library()


@pytest.fixture(params=ways.WAYS, ids=lambda way: way.name)
def way(request):
    return request.param
