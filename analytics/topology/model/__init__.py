"""The data of a topology: inputs, facts, and the document."""
