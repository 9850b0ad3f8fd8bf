"""Inputs, facts and graph of a topology as Spark DataFrames, and the report that does not fetch all of them."""
