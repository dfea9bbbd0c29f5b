"""What a connector is: where the rows of a stream come from, and what that means for the stream."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from anabranch.archive.reader import HistoryReader
from anabranch.dataspace.access import Access
from anabranch.errors import CatalogError, SetupError, did_you_mean
from anabranch.log.offset import End
from anabranch.log.reader import StreamReader
from anabranch.log.storage import Storage
from anabranch.log.stream import StreamInfo

if TYPE_CHECKING:
    from anabranch.dataspace.remote_reader import RemoteReader
    from anabranch.log.brought_home import AnswersReader

    Reader: TypeAlias = StreamReader | RemoteReader | AnswersReader | HistoryReader


class Option(NamedTuple):
    """What CREATE STREAM … OPTIONS may say."""

    name: str
    help: str
    needed: bool = False
    secret: bool = False


@dataclass(frozen=True)
class Declared:
    """What a CREATE STREAM says."""

    name: str
    columns: tuple[tuple[str, str], ...]
    time: str | None = None
    skew_us: int = 0
    retain_us: int | None = None
    idle_us: int | None = None
    options: Mapping[str, str] = field(default_factory=dict)
    changes_by: str | None = None
    """The column that says what became of a row of some table elsewhere, of which `key` says which it is."""
    key: tuple[str, ...] = ()


class Connector(ABC):
    """Where the rows of a stream come from. Here, the ones of this database's own log.

    One that has its rows elsewhere (`logged` is False) gives readers of its own: `open` and `look`.
    """

    name: str
    """The stream's origin; behind FROM, what the connector is called."""
    options: tuple[Option, ...] = ()
    example: str = ""
    """OPTIONS as someone might write them, for who forgets one."""
    said: bool = False
    """Whether CREATE STREAM … FROM may name it."""
    asks_for_columns: bool = False
    """Whether columns may be left out of the declaration: where the rows are, they are known."""
    logged: bool = True
    """Whether its rows are in this database's log: only those are archived, checked, kept and held back for skew."""
    place: str = "this database"
    """Where its rows are."""
    appendable: bool = False
    """Whether rows may be appended to the stream."""

    @abstractmethod
    def declare(self, said: Declared, access: Access) -> StreamInfo:
        """The stream that a CREATE STREAM declares, checked; `access` says what it may reach."""

    def open(self, info: StreamInfo, storage: Storage, access: Access | None, *, history: bool) -> Reader:
        """A reader of its rows; with `history` also of those that only archives hold."""
        return HistoryReader(storage) if history else StreamReader(storage)

    def look(self, info: StreamInfo, storage: Storage, access: Access | None) -> End | None:
        """How far it has come, told soon: None if its rows are somewhere that is away."""
        return StreamReader(storage).end()

    def filled_by(self, info: StreamInfo) -> str:
        """Who fills the stream, in words for people; nothing secret."""
        return self.name

    def note(self, info: StreamInfo) -> str:
        """What DESCRIBE says of where its rows come from, if that is worth a word."""
        return ""

    def is_private(self, info: StreamInfo) -> bool:
        """Whether its declaration holds a secret."""
        return any(option.secret and option.name in info.options for option in self.options)

    def check_options(self, stream: str, given: Mapping[str, str]) -> None:
        """An error if an option is none of its own, or one is missing."""
        known = [option.name for option in self.options]
        for name in given:
            if name not in known:
                raise SetupError(
                    "SETTING_NOT_FOUND",
                    f'"{name}" is not an option of a stream from a {self.name}',
                    hint=did_you_mean(name, known),
                )
        for option in self.options:
            if option.needed and not given.get(option.name):
                raise CatalogError(
                    "OPTION_MISSING",
                    f'stream "{stream}" needs to know its {option.name}',
                    hint=f"OPTIONS ({self.example})",
                )

    def undeclarable(self) -> CatalogError:
        """The error where nobody can declare a stream of this kind."""
        return CatalogError("SOURCE_NOT_AVAILABLE", f"no stream is declared to be filled by {self.name}")
