"""Reducers say what they should, refuse what they cannot take, and `load` keeps a queue short."""

from __future__ import annotations

import dataclasses
import datetime
import decimal
import doctest
import json
import random
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from anabranch.archive.reducers import REDUCERS, SIGNATURES, Reducer, Seen, check, keep_of, reducer_of
from anabranch.archive.user_reducers import reducer_class
from anabranch.catalog import reducers as catalog
from anabranch.errors import AnabranchError, QueryError
from anabranch.log.storage import Storage

OWN = "tests.archive.own_reducers"
HOUR = 3_600_000_000
HOURLY = datetime.timedelta(hours=1)


def seen(**fields: Any) -> Seen:
    return Seen(**{"time_first": None, "time_last": None, "newest": 0, **fields})


def refused(name: str, arguments: list[Any], **more: Any) -> AnabranchError:
    with pytest.raises(AnabranchError) as caught:
        check(name, arguments, **more)
    return caught.value


# -- the built-in ones ---------------------------------------------------------------------------


def test_every_reducer_has_a_signature_with_its_arguments() -> None:
    assert list(REDUCERS) == list(SIGNATURES)
    samples = {"fraction": 0.5, "interval": HOURLY, "percent": 5, "column": "plate"}
    for name, signature in SIGNATURES.items():
        assert signature.help.endswith(".")
        arguments = [samples[a.kind] for a in signature.arguments]
        spec = check(name.upper(), arguments)
        assert spec[0] == name
        assert reducer_of(json.loads(json.dumps(spec))).by == ("plate" if "plate" in arguments else None)
        needed = [samples[a.kind] for a in signature.arguments if not a.optional]
        assert isinstance(reducer_of(check(name, needed)), REDUCERS[name])


def test_uniform_drops_its_fraction_and_by_key_does_so_by_a_column() -> None:
    uniform, by_key = reducer_of(("uniform", (0.4,))), reducer_of(("by_key", ("plate", 0.9)))
    assert uniform.reduce(seen()) == 0.4
    assert keep_of(uniform, seen()) == 0.6
    assert uniform.by is None
    assert keep_of(by_key, seen()) == pytest.approx(0.1)
    assert by_key.by == "plate"


@pytest.mark.parametrize(("hours", "kept"), [(0, 1), (1, 0.5), (2, 0.25), (10, 2**-10), (100_000, 0)])
def test_age_halves_what_is_read_with_each_half_life(hours: int, kept: float) -> None:
    age = reducer_of(("age", (HOUR,)))
    assert keep_of(age, seen(time_first=0, time_last=7 * HOUR, newest=(7 + hours) * HOUR)) == pytest.approx(kept)


def test_age_reads_all_of_what_is_newer_than_the_stream_or_of_unknown_time() -> None:
    age = reducer_of(("age", (HOUR,)))
    assert age.reduce(seen(time_last=2 * HOUR, newest=HOUR)) == 0
    assert age.reduce(seen(newest=HOUR)) == 0


def test_every_gives_a_span_and_no_fraction() -> None:
    every = reducer_of(("every", (HOUR,)))
    assert every.reduce(seen()) == HOURLY
    with pytest.raises(QueryError, match=r"REDUCER_FAILED .* takes samples, not summaries"):
        keep_of(every, seen())


def test_error_leaves_the_reading_to_the_question() -> None:
    error = reducer_of(("error", (2.0,)))
    assert vars(error) == {"percent": 2.0, "confidence": 95.0}
    assert vars(reducer_of(("error", (2.0, 99.0)))) == {"percent": 2.0, "confidence": 99.0}
    assert error.reduce(seen()) == 0


def test_stateless_reducers_are_those_that_answer_the_same_again() -> None:
    assert {name for name, cls in REDUCERS.items() if not cls.stateless} == {"load"}


def test_page_lists_every_reducer_and_its_example_runs() -> None:
    page = (Path(__file__).parents[2] / "docs" / "reducers.md").read_text(encoding="utf-8")
    rows = dict(re.findall(r"^\| `(\w+\([^`]*\))` \| (.*) \|$", page, flags=re.MULTILINE))
    assert rows == {str(signature): signature.help for signature in SIGNATURES.values()}
    fields = {
        name for cell in re.findall(r"^\| (`[a-z_`, ]+) \|", page, re.MULTILINE) for name in re.findall(r"\w+", cell)
    }
    assert {field.name for field in dataclasses.fields(Seen)} <= fields
    outcome = doctest.DocTestRunner(verbose=False).run(
        doctest.DocTestParser().get_doctest(page, {}, "reducers.md", None, 0)
    )
    assert (outcome.failed, outcome.attempted) == (0, 4)


# -- load ----------------------------------------------------------------------------------------


class Queue:
    """One server: live rows are half of what it can do, reads of history come on top."""

    def __init__(self, load: Reducer, step: float, noise: float = 0.0) -> None:
        self.load, self.step, self.noise = load, step, noise
        self.lag, self.lags, self.keeps = 0.0, [0.0], [1.0]
        self.random = random.Random(5)

    def run(self, seconds: float, history: float) -> None:
        """`history` is what reading all of it takes, of what the server can do."""
        self.lags, self.keeps = [], []
        for _ in range(int(seconds / self.step)):
            keep = keep_of(self.load, seen(lag=self.lag))
            live = 0.5 * (1 + self.random.uniform(-self.noise, self.noise))
            self.lag = max(self.lag + self.step * (live + history * keep - 1), 0)
            self.lags.append(self.lag)
            self.keeps.append(keep)


@pytest.mark.parametrize("step", [0.05, 0.25, 1.0])
@pytest.mark.parametrize("noise", [0.0, 0.5])
def test_load_holds_the_lag_below_its_target_at_twice_the_capacity_and_recovers(step: float, noise: float) -> None:
    queue = Queue(reducer_of(("load", (5_000_000,))), step, noise)
    queue.run(300, history=1.5)
    assert max(queue.lags) < 5
    assert 0.75 / 3 < float(np.mean(queue.keeps)) < 1.1 / 3, "it reads about the third that there is room for"
    queue.run(120, history=0.25)
    assert queue.keeps[-1] == 1
    assert queue.lag == 0


def test_without_load_the_same_queue_grows() -> None:
    queue = Queue(reducer_of(("uniform", (0.0,))), 1.0)
    queue.run(300, history=1.5)
    assert queue.lag == pytest.approx(300)


def test_load_halves_above_the_target_waits_while_the_lag_shrinks_and_grows_when_all_is_calm() -> None:
    load = reducer_of(("load", (4_000_000, "plate")))
    assert load.by == "plate"
    kept = [round(keep_of(load, seen(lag=lag)), 3) for lag in (0, 6, 7, 6, 5, 3, 1.5, 0.5, 0.5, 3)]
    assert kept == [1, 0.5, 0.25, 0.25, 0.25, 0.25, 0.25, 0.25, 0.25, 0.167]
    calm = [round(keep_of(load, seen(lag=0.5)), 3) for _ in range(34)]
    assert calm == [0.167] * 15 + [0.25] * 16 + [0.375] * 3


def test_load_never_leaves_its_bounds() -> None:
    load = reducer_of(("load", (1_000_000,)))
    assert min(keep_of(load, seen(lag=float(10 + n))) for n in range(100)) == pytest.approx(0.001)
    assert keep_of(load, seen(lag=1000.0)) == pytest.approx(0.001)
    for _ in range(1000):
        keep_of(load, seen())
    assert keep_of(load, seen()) == 1


def test_load_minds_a_busy_disk_only_while_live_rows_wait() -> None:
    load = reducer_of(("load", (4_000_000,)))
    assert keep_of(load, seen(disk_wait=1.0)) == 1
    assert keep_of(load, seen(disk_wait=0.95, lag=1.5)) < 1


# -- what SQL has checked ------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("uniform", [1]),
        ("uniform", [-0.1]),
        ("uniform", [float("nan")]),
        ("uniform", [True]),
        ("uniform", ["0.5"]),
        ("uniform", [HOURLY]),
        ("uniform", []),
        ("uniform", [0.1, 0.2]),
        ("age", [5]),
        ("age", [datetime.timedelta(0)]),
        ("age", [-HOURLY]),
        ("every", [datetime.timedelta(days=40_000)]),
        ("error", [0]),
        ("error", [2, 100]),
        ("load", [HOURLY, 3]),
        ("load", [HOURLY, ""]),
        ("by_key", [0.5, "plate"]),
    ],
)
def test_check_refuses_arguments_of_the_wrong_kind(name: str, arguments: list[Any]) -> None:
    problem = refused(name, arguments)
    assert problem.name == "REDUCER_ARGUMENT_INVALID"
    assert "wanted" in problem.message


def test_check_says_what_was_wanted() -> None:
    assert str(refused("uniform", [40])) == (
        "REDUCER_ARGUMENT_INVALID fraction of uniform(fraction) is 40, "
        "wanted the fraction to drop, a number from 0 to below 1"
    )
    assert str(refused("load", [])) == (
        "REDUCER_ARGUMENT_INVALID load has 0 arguments, wanted 1 or 2. Hint: write load(target_lag[, column])"
    )


def test_check_takes_numbers_of_all_kinds() -> None:
    assert check("uniform", [decimal.Decimal("0.4")]) == ("uniform", (0.4,))
    assert check("error", [np.int64(2), 95]) == ("error", (2.0, 95.0))


def test_check_knows_which_reducers_there_are() -> None:
    problem = refused("unifrom", [0.5])
    assert (problem.name, problem.hint) == ("REDUCER_NOT_FOUND", 'did you mean "uniform"?')
    problem = refused("growin", [0.5], registered={"growing": f"{OWN}:Growing"})
    assert problem.hint == 'did you mean "growing"?'


def test_plain_data_that_is_wrong_is_refused_too() -> None:
    for spec in [("uniform", (2.0,)), ("age", (0,)), ("age", (10**30,)), ("age", (True,)), ("every", (0.5,))]:
        with pytest.raises(AnabranchError):
            reducer_of(spec)
    with pytest.raises(AnabranchError, match="REDUCER_NOT_FOUND"):
        reducer_of(("nothing", ()))


# -- the user's own ------------------------------------------------------------------------------


def test_own_reducer_keeps_state_and_says_what_it_needs() -> None:
    spec = check("Growing", [0.25, "plate"], {"growing": f"{OWN}:Growing"})
    assert spec == (f"{OWN}:Growing", (0.25, "plate"))
    own = reducer_of(spec)
    assert isinstance(own, Reducer)
    assert (own.by, own.needs_rows, own.stateless) == ("plate", True, False)
    assert [keep_of(own, seen()) for _ in range(6)] == [1, 0.75, 0.5, 0.25, 0, 0]
    assert keep_of(reducer_of(spec), seen()) == 1, "another scan has its own state"


def test_own_reducer_may_give_a_span() -> None:
    assert reducer_of((f"{OWN}:Gives", ("hour",))).reduce(seen()) == HOURLY
    assert reducer_of((f"{OWN}:Gives", ("one",))).reduce(seen()) == 1


def test_intervals_reach_own_reducers_as_microseconds() -> None:
    assert check(f"{OWN}:Gives", [HOURLY]) == (f"{OWN}:Gives", (HOUR,))


@pytest.mark.parametrize("thing", ["nan", "two", "minus", "text", "true", "none", "nothing"])
def test_what_an_own_reducer_gives_is_checked(thing: str) -> None:
    with pytest.raises(QueryError, match=r"REDUCER_FAILED reducer \"tests\.archive\.own_reducers:Gives\" gave"):
        reducer_of((f"{OWN}:Gives", (thing,))).reduce(seen())


def test_what_own_code_raises_is_told_with_its_class() -> None:
    with pytest.raises(QueryError) as caught:
        reducer_of((f"{OWN}:Careless", ())).reduce(seen())
    said, _, place = str(caught.value).partition(". Detail: ")
    assert said == f'REDUCER_FAILED reducer "{OWN}:Careless" failed: ZeroDivisionError: division by zero'
    assert re.fullmatch(r".*own_reducers\.py, line \d+", place)
    with pytest.raises(QueryError, match=r"REDUCER_FAILED .*OSError: no such socket"):
        reducer_of((f"{OWN}:FailsToBegin", ()))
    with pytest.raises(QueryError, match=r"REDUCER_FAILED .* has by = 7"):
        reducer_of((f"{OWN}:ByNumber", ()))


@pytest.mark.parametrize(
    ("path", "said"),
    [
        ("no.such.module:Thing", 'cannot import "no.such.module"'),
        (f"{OWN}:Missing", 'has no "Missing"'),
        (f"{OWN}:NoReducer", "is not a reducer"),
        (f"{OWN}:NOT_A_CLASS", "is not a reducer"),
        ("os; import x:Y", "does not say where a reducer is"),
        (":Y", "does not say where a reducer is"),
    ],
)
def test_class_that_cannot_be_had_is_refused(path: str, said: str) -> None:
    with pytest.raises(AnabranchError) as caught:
        reducer_class(path)
    assert caught.value.name == "REDUCER_NOT_IMPORTABLE"
    assert said in caught.value.message


def test_own_reducer_refuses_arguments() -> None:
    problem = refused(f"{OWN}:Growing", [])
    assert problem.name == "REDUCER_ARGUMENT_INVALID"
    assert "Growing(step" in str(problem.hint)
    problem = refused(f"{OWN}:Growing", [5.0])
    assert (problem.name, problem.detail) == ("REDUCER_ARGUMENT_INVALID", "step must be at most 1")


# -- their names in the catalog ------------------------------------------------------------------


def test_catalog_keeps_names_of_reducers(tmp_path: Path) -> None:
    root = Storage(str(tmp_path))
    assert catalog.registered(root) == {}
    catalog.register(root, "Growing", f"{OWN}:Growing")
    catalog.register(root, "gives", f"{OWN}:Gives")
    assert catalog.registered(Storage(str(tmp_path))) == {"gives": f"{OWN}:Gives", "growing": f"{OWN}:Growing"}
    assert catalog.lookup(root, "GROWING") == f"{OWN}:Growing"
    catalog.unregister(root, "gives")
    assert list(catalog.registered(root)) == ["growing"]
    with pytest.raises(AnabranchError, match=r'REDUCER_NOT_FOUND .* did you mean "growing"'):
        catalog.lookup(root, "growth")


@pytest.mark.parametrize("name", ["uniform", "Age", "", "two words", "7th", "a:b"])
def test_catalog_refuses_names(tmp_path: Path, name: str) -> None:
    with pytest.raises(AnabranchError, match="NAME_NOT_ALLOWED"):
        catalog.register(Storage(str(tmp_path)), name, f"{OWN}:Growing")


def test_catalog_refuses_classes_that_are_none(tmp_path: Path) -> None:
    with pytest.raises(AnabranchError, match="REDUCER_NOT_IMPORTABLE"):
        catalog.register(Storage(str(tmp_path)), "mine", f"{OWN}:NoReducer")
    assert catalog.registered(Storage(str(tmp_path))) == {}
