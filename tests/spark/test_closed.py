"""An embedded Spark is reached by nobody else: it listens on loopback alone, and wants a secret."""

from __future__ import annotations

import ipaddress
from pathlib import Path
from typing import TYPE_CHECKING

import psutil
import pytest

from anabranch.spark.gateway import for_us_alone

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark


def listening(process: psutil.Process) -> list[str]:
    """The addresses a process and all its children accept connections or datagrams on."""
    found = []
    for each in [process, *process.children(recursive=True)]:
        try:
            sockets = each.net_connections("inet")
        except psutil.NoSuchProcess:
            continue
        found += [s.laddr.ip for s in sockets if s.laddr and (s.status == psutil.CONN_LISTEN or not s.raddr)]
    return found


def is_loopback(text: str) -> bool:
    address = ipaddress.ip_address(text)
    mapped = address.ipv4_mapped if isinstance(address, ipaddress.IPv6Address) else None
    return (mapped or address).is_loopback


def test_no_process_of_a_database_listens_beyond_loopback(spark: SparkSession) -> None:
    # A job of Python workers, so that everything that will ever listen does.
    assert spark.range(0, 8, 1, 4).mapInArrow(lambda batches: batches, "id BIGINT").count() == 8
    addresses = listening(psutil.Process())
    assert len(addresses) >= 3  # the driver, its block manager and Python's own connection to it
    assert [each for each in addresses if not is_loopback(each)] == []


def test_an_embedded_driver_wants_a_secret(spark: SparkSession) -> None:
    assert spark.sparkContext.getConf().get("spark.authenticate") == "true"


def test_what_spark_says_is_for_its_user_alone_and_follows_no_link(tmp_path: Path) -> None:
    (tmp_path / "linked.log").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(OSError, match="symbolic"), open(tmp_path / "linked.log", "ab", opener=for_us_alone):
        pass
    with open(tmp_path / "spark.log", "ab", opener=for_us_alone):
        pass
    assert (tmp_path / "spark.log").stat().st_mode & 0o777 == 0o600
