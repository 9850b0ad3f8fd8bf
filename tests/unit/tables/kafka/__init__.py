"""Tests of tables/kafka."""
