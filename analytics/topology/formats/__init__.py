"""The document in formats that other programs read: AsyncAPI, OpenLineage, Backstage, GraphML.

Each is a pure function from the document to text. Names may be arbitrary text (every sender chooses its source), so no
text becomes a key, a reference or an entity's name without being made one. Figures of traffic are only in GraphML: the
others are catalogues, and two runs over the same resources give the same text, except for OpenLineage's time.
"""
