"""The inputs and facts of a topology as Spark DataFrames."""
