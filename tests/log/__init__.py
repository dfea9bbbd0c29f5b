"""Tests of the segment log; none of them needs Spark."""
