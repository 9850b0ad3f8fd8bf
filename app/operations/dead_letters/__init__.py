"""Dead letters for the command line: read from DLQ topics, grouped, shown, and delivered again to their subscription.

    DLQ topics --> reading --> letters (selection, groups: pure) --> cli: list, show
                                  |
                                  v
                  redrive: pace --> subscriber of that subscription, and no other --> redriven topic

Refuses to change or remove a dead letter: what was redriven is written down beside it.
"""
