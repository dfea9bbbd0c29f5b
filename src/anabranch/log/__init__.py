"""The stream manager: rows are ordered, stamped, cut into segments, kept, and read again."""

from anabranch.log.offset import MIN_TIME, End
from anabranch.log.reader import StreamReader
from anabranch.log.storage import Storage
from anabranch.log.writer import StreamWriter

__all__ = ["MIN_TIME", "End", "Storage", "StreamReader", "StreamWriter"]
