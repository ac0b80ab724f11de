"""The Ray source, in a local cluster; and what is said where Ray is missing."""
import functools
import importlib
import sys

import numpy as np
import pytest

import headrace

PROMPTS = [[75 + i, 104, 111, 20 + i, *range(31, 31 + i % 7)] for i in range(11)]


def test_a_missing_ray_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", None)
    monkeypatch.delitem(sys.modules, "headrace.ray", raising=False)
    with pytest.raises(ImportError, match=r"pip install 'ray\[data\]'"):
        importlib.import_module("headrace.ray")


@pytest.fixture(scope="module")
def source():
    ray = pytest.importorskip("ray")
    pytest.importorskip("ray.data")
    ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False, configure_logging=False)
    yield importlib.import_module("headrace.ray")
    ray.shutdown()


def expected_rows(client, **options):
    (harvested,) = [batch for batch in headrace.Harvest(client, PROMPTS, seed=None, batch_rows=10**4, **options)]
    return harvested


@pytest.mark.parametrize("blocks", [1, 4, 50])
def test_rows_are_those_of_a_harvest(source, client, address, blocks):
    dataset = source.read_activations([address, address], PROMPTS, layers=[3], block_rows=16,
                                      override_num_blocks=blocks)
    rows = sorted(dataset.take_all(), key=lambda row: (row["prompt"], row["position"]))

    harvested = expected_rows(client, layers=[3])
    np.testing.assert_array_equal(np.stack([row["activations"] for row in rows]), harvested.activations)
    assert [row["token"] for row in rows] == harvested.tokens.tolist()
    assert [row["position"] for row in rows] == harvested.positions.tolist()
    assert [row["prompt"] for row in rows] == harvested.prompts.tolist()


def test_points_options_and_clients_reach_the_tasks(source, client, address):
    make = functools.partial(headrace.Client, timeout=100)
    options = dict(hooks=["resid_pre", "attn_out"], layers=[1, 2], rows=headrace.rows(prompt="last"))
    dataset = source.read_activations([address], PROMPTS, client=make, concurrency=1, **options)
    batch = next(iter(dataset.sort("prompt").iter_batches(batch_size=100, batch_format="numpy")))

    assert batch["activations"].shape == (len(PROMPTS), 4, client.get_model().hidden_size)
    np.testing.assert_array_equal(batch["activations"], expected_rows(client, **options).activations)


def test_errors_of_a_task_reach_the_driver(source, client, address):
    bad = [[client.get_model().vocab_size]]
    with pytest.raises(Exception, match="INVALID_ARGUMENT"):
        source.read_activations([address], bad, layers=[0]).take_all()
    for addresses, error in (("a:1", TypeError), ([], ValueError)):
        with pytest.raises(error, match="addresses"):
            source.Activations(addresses, PROMPTS)
    with pytest.raises(TypeError, match="seed has no meaning"):
        source.Activations([address], PROMPTS, seed=3)
    assert source.read_activations([address], [], layers=[0]).count() == 0
