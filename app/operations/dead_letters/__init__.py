"""Dead letters for the command line: read them from DLQ topics, group and show them, redrive them.

    DLQ topics --> reader --> letters (selection, groups: pure) --> cli: list, show
                                  |
                                  v
                  redrive: rate --> subscriber of that subscription, and no other --> redrive ledger

Does not change or remove a dead letter: the ledger records which ones were redriven.
"""
