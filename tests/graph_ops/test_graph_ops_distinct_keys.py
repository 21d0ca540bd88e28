"""Whether a key comes twice among many, some of which are in memory at a time."""
import numpy as np
import pytest

from sok1x.graph_ops.transfer import distinct_keys


@pytest.mark.parametrize("total", [0, 1, 4, 5, 64, 1000])
def test_repeated_keys_are_found_in_few_passes(seed, monkeypatch, total):
    monkeypatch.setattr(distinct_keys, "_COMPARED_AT_ONCE", 4)
    random = np.random.RandomState(seed)
    keys = random.permutation(np.arange(total) << random.randint(0, 50)) - 7
    passes, most = [], []

    def begin(keys):
        passes.append(keys)
        return (keys[first:first + 3] for first in range(0, len(keys), 3))

    stock = np.concatenate
    monkeypatch.setattr(np, "concatenate", lambda parts: (most.append(sum(map(len, parts))), stock(parts))[1])
    assert distinct_keys.repeated(lambda: begin(keys), total) is None
    assert len(passes) == min(-(-total // 4), 16)
    assert total < 64 or max(most) < 2 * max(4, -(-total // 16)) + 12
    if total > 1:
        places = random.choice(total, 2, False)
        keys[places[0]] = keys[places[1]]
        assert distinct_keys.repeated(lambda: begin(keys), total) == keys[places[0]]
