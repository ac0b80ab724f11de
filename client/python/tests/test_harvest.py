"""Batches of rows from many prompts, against a running server."""
import itertools
import json
import threading

import numpy as np
import pytest

import headrace
from headrace import interventions
from headrace.harvest.blocks import order_of

PROMPTS = [[75 + i, 104, 111, 20 + i, *range(31, 31 + i % 7)] for i in range(23)]
SIZES = {"batch_rows": 8, "buffer_rows": 30}  # blocks of 32


@pytest.fixture(scope="module")
def harvested(client):
    """Harvest(PROMPTS) of one point, closed in the end."""
    opened = []

    def run(prompts=PROMPTS, **options):
        opened.append(headrace.Harvest(client, prompts, **{"layers": [3], **SIZES, **options}))
        return opened[-1]

    yield run
    for harvest in opened:
        harvest.close()


def rows_by_label(batches):
    """(prompt, position) -> token and row."""
    rows = {}
    for batch in batches:
        for prompt, position, token, row in zip(batch.prompts, batch.positions, batch.tokens, batch.activations):
            assert (prompt, position) not in rows
            rows[int(prompt), int(position)] = int(token), row.tobytes()
    return rows


def same(one, other):
    return len(one) == len(other) and all(
        a.activations.tobytes() == b.activations.tobytes() and a.prompts.tolist() == b.prompts.tolist()
        and a.positions.tolist() == b.positions.tolist() and a.tokens.tolist() == b.tokens.tolist()
        for a, b in zip(one, other))


def test_every_row_comes_once_and_is_what_it_says(client, harvested):
    batches = list(harvested())
    total = sum(map(len, PROMPTS))

    assert [len(batch) for batch in batches] == [8] * (total // 8) + [total % 8] * (total % 8 > 0)
    rows = rows_by_label(batches)
    assert sorted(rows) == [(i, p) for i, prompt in enumerate(PROMPTS) for p in range(len(prompt))]
    for i in (0, 11, 22):
        _, cache = client.run_with_cache(PROMPTS[i], hooks=["resid_post"], layers=[3])
        for position, row in enumerate(cache["blocks.3.hook_resid_post"]):
            assert rows[i, position] == (PROMPTS[i][position], row.tobytes())


def test_batches_depend_on_the_seed_and_not_on_timing(harvested):
    batches = list(harvested(in_flight=1))

    assert same(batches, list(harvested(in_flight=16, prefetch=3)))
    other = list(harvested(seed=1))
    assert not same(batches, other) and rows_by_label(batches) == rows_by_label(other)
    in_order = list(harvested(seed=None))
    labels = [(p, q) for b in in_order for p, q in zip(b.prompts.tolist(), b.positions.tolist())]
    assert labels == sorted(labels) and not same(batches, in_order)


def test_a_block_is_shuffled_as_a_whole(harvested):
    in_order = np.concatenate([b.prompts for b in harvested(seed=None)])
    shuffled = np.concatenate([b.prompts for b in harvested()])
    for block in range(0, len(in_order), 32):
        assert sorted(shuffled[block:block + 32]) == sorted(in_order[block:block + 32])
    # Blocks differ, and a published order stays what it is.
    assert order_of(6, 0, 0).tolist() != order_of(6, 0, 1).tolist()
    assert order_of(6, 7, 3).tolist() == ORDER_OF_6_7_3


# The raw bits of PCG64 are the same in every version of numpy.
ORDER_OF_6_7_3 = [2, 4, 3, 5, 1, 0]


def test_it_resumes_with_the_same_batches(harvested):
    batches = list(harvested())
    first = harvested()
    for given in range(len(batches) + 1):  # within blocks and between
        state = headrace.HarvestState.from_json(first.state.to_json())
        assert len(first.state.to_json()) < 2000
        if given % 5 in (0, 3):
            assert same(list(harvested(state=state)), batches[given:])
        if given == 9:  # From an iterator too, which is read up to there.
            assert same(list(harvested(iter(PROMPTS), state=state)), batches[given:])
        next(first, None)


def test_resuming_computes_no_prompt_before_its_block(harvested):
    first = harvested()
    list(itertools.islice(first, 9))  # into the third block
    asked = []

    class Watched(list):
        def __getitem__(self, index):
            asked.append(index)
            return super().__getitem__(index)

    rest = list(harvested(Watched(PROMPTS), state=first.state))
    assert min(asked) == first.state.prompt > 5
    assert sum(map(len, rest)) == sum(map(len, PROMPTS)) - 9 * 8


@pytest.mark.parametrize("change, message", [
    ({"seed": 5}, "seed was 0 and is 5"),
    ({"batch_rows": 16}, "batch_rows was 8 and is 16"),
    ({"layers": [2]}, "blocks.2.hook_resid_post"),
    ({"exclude_tokens": [104]}, "exclude_tokens was"),
])
def test_the_state_of_another_harvest_is_refused(harvested, change, message):
    with pytest.raises(ValueError, match=message):
        harvested(state=harvested().state, **change)


def test_a_state_with_other_prompts_is_refused(harvested):
    first = harvested()
    next(first)
    with pytest.raises(ValueError, match="whose prompt 0 was another one"):
        next(harvested([[9, 9, 9], *PROMPTS[1:]], state=first.state))


def test_special_tokens_are_left_out(client, harvested):
    model = client.get_model()
    special = sorted({*model.control_token_ids, *model.end_token_ids})
    prompts = [[special[0], 75, 104, special[-1]], special[:3], [111, special[1]]]

    assert list(rows_by_label(harvested(prompts))) and sorted(rows_by_label(harvested(prompts))) == [
        (0, 1), (0, 2), (2, 0)]
    assert len(rows_by_label(harvested(prompts, exclude_tokens=()))) == 9
    assert list(harvested([special[:2]])) == [] == list(harvested([]))


def test_text_is_harvested_as_generate_would_read_it(client, harvested):
    rows = rows_by_label(harvested(["Once upon a time", "Hello"]))
    assert [rows[0, p][0] for p in range(len(client.tokenize("Once upon a time")))] == client.tokenize(
        "Once upon a time")


def test_several_points_stand_side_by_side(client, harvested):
    # decoderesearch/SAELens#540
    harvest = harvested(hooks=["resid_pre", "attn_out"], layers=[1, 4], seed=None)
    assert harvest.names == ["blocks.1.hook_resid_pre", "blocks.4.hook_resid_pre", "blocks.1.hook_attn_out",
                             "blocks.4.hook_attn_out"]
    batch = next(harvest)
    _, cache = client.run_with_cache(PROMPTS[0], hooks=["resid_pre", "attn_out"], layers=[1, 4])
    assert batch.activations.shape == (8, 4, client.get_model().hidden_size)
    for i, name in enumerate(harvest.names):
        np.testing.assert_array_equal(batch.activations[:4, i], cache[name])
    with pytest.raises(ValueError, match="different widths"):
        harvested(hooks=["resid_pre", "mlp_act"])


def test_narrow_rows_stay_narrow_when_asked(harvested):
    wide = np.concatenate([b.activations for b in harvested()])
    half = np.concatenate([b.activations for b in harvested(dtype="f16", native=True)])
    assert half.dtype == np.float16
    np.testing.assert_array_equal(half, wide.astype(np.float16))


def test_options_of_forward_reach_the_server(harvested):
    batch = next(harvested(interventions=[interventions.zero("resid_post", layers=[3])]))
    assert not batch.activations.any()
    with pytest.raises(TypeError, match="forward\\(\\) has no option 'max_tokens'"):
        next(harvested(max_tokens=3))


def test_drop_last_leaves_the_smaller_batch_out(harvested):
    harvest = harvested(drop_last=True)
    assert {len(batch) for batch in harvest} == {8}


def test_a_bad_prompt_is_an_error_at_its_turn(client, harvested):
    bad = [client.get_model().vocab_size]
    harvest = harvested([*PROMPTS[:12], bad, *PROMPTS[12:]])
    given = []
    with pytest.raises(headrace.InvalidArgumentError, match="tokens"):
        for batch in harvest:
            given.append(batch)
    assert given and same(given, list(itertools.islice(harvested(), len(given))))
    # Nothing is lost: with the prompt mended, it goes on.
    assert list(harvested([*PROMPTS[:12], [], *PROMPTS[12:]][:12] + PROMPTS[12:], state=harvest.state))


def test_it_reads_no_more_than_it_has_room_for(harvested):
    # decoderesearch/SAELens#277: out of memory.
    taken = []

    def endless():
        for i in itertools.count():
            taken.append(i)
            yield PROMPTS[i % len(PROMPTS)]

    harvest = harvested(endless(), in_flight=2)
    next(harvest)
    thread = next(t for t in threading.enumerate() if t.name == "headrace-harvest" and t.is_alive())
    assert thread
    for _ in range(20):
        next(harvest)
    # 21 batches of 8, two blocks of 32, two prompts in flight; none has under 4 rows.
    assert len(taken) <= (21 * 8 + 2 * 32) // 4 + 2 + 1


def test_closing_it_ends_its_thread_and_calls(client, harvested):
    def endless():
        while True:
            yield [75] * 60

    before = set(threading.enumerate())
    with headrace.Harvest(client, endless(), layers=[3], **SIZES) as harvest:
        next(harvest)
    assert list(harvest) == []
    dropped = headrace.Harvest(client, endless(), layers=[3], **SIZES)
    next(dropped)
    del dropped
    for thread in set(threading.enumerate()) - before:
        thread.join(timeout=30)
        assert not thread.is_alive(), thread
    assert client.generate_text([75], max_tokens=1) is not None


def test_arguments_are_checked(client):
    for name in ("batch_rows", "in_flight", "prefetch"):
        with pytest.raises(ValueError, match=f"{name} must be at least 1; is 0"):
            headrace.Harvest(client, PROMPTS, **{name: 0})
    with pytest.raises(TypeError, match="prompts is a string"):
        headrace.Harvest(client, "Once upon a time")
    assert json.loads(headrace.HarvestState({"seed": 1}).to_json())["settings"] == {"seed": 1}
