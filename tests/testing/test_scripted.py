"""The scripted source plays its script, and nothing else."""

from __future__ import annotations

import pytest

from anabranch.sources.base import END, NO_VALUE, NewValue, values_of
from anabranch.testing import ABORT, Abort, ManualClock, Pause, ScriptedSource
from anabranch.testing.scripted import at


def test_values_silences_and_the_end_come_in_order() -> None:
    with ScriptedSource([{"v": 1}, at(7, {"v": 2}), NO_VALUE, {"v": 3}, END, {"v": 4}]) as source:
        assert list(values_of(source)) == [NewValue({"v": 1}), NewValue({"v": 2}, 7)]
        assert list(values_of(source)) == [NewValue({"v": 3})]
        assert [source.read_stream() for _ in range(2)] == [END, END]


def test_behind_the_last_step_the_stream_ends() -> None:
    with ScriptedSource([]) as source:
        assert source.read_stream() is END


def test_pause_lasts_until_the_clock_has_passed_it() -> None:
    clock = ManualClock()
    with ScriptedSource([{"v": 1}, Pause(2.0), {"v": 2}], clock=clock) as source:
        assert source.read_stream() == NewValue({"v": 1})
        assert source.read_stream() is NO_VALUE
        clock.advance(1.999)
        assert source.read_stream() is NO_VALUE
        clock.advance(0.001)
        assert source.read_stream() == NewValue({"v": 2})


def test_pause_without_a_clock_is_one_silence() -> None:
    with ScriptedSource([Pause(3600), {"v": 1}]) as source:
        assert [source.read_stream() for _ in range(2)] == [NO_VALUE, NewValue({"v": 1})]


def test_error_is_raised_once_and_a_resumed_source_goes_on_behind_it() -> None:
    source = ScriptedSource([{"v": 1}, ABORT, ConnectionError("gone"), {"v": 2}], resume=True)
    with source:
        assert source.read_stream() == NewValue({"v": 1})
        with pytest.raises(Abort):
            source.read_stream()
    assert not source.is_open
    with source:
        with pytest.raises(ConnectionError, match="gone"):
            source.read_stream()
        assert source.read_stream() == NewValue({"v": 2})
    assert (source.opened, source.left) == (2, 0)


def test_source_that_does_not_resume_begins_again() -> None:
    source = ScriptedSource([{"v": 1}, {"v": 2}])
    for _ in range(2):
        with source:
            assert source.read_stream() == NewValue({"v": 1})


def test_closed_source_cannot_be_read() -> None:
    with pytest.raises(RuntimeError, match="before init_stream"):
        ScriptedSource([{"v": 1}]).read_stream()
