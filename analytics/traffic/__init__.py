"""The traffic job: what went through each channel and to each subscription, in windows of one minute and one hour.

    channel topics ----headers, lengths----> query `records` --\\              one folder for each batch
                                                                 > partial sums --> batch=N/ --compaction--> upto=N/
    topic <instance>.traffic ---deltas-----> query `deltas` ---/               read.py merges them into windows

    frames    what Spark computes of a batch          store   the folder: batches, state, compaction, retention
    seen      which deltas were counted already       read    windows for everybody else, without Spark
    job       the queries, their errors, the summary  offsets rates from offsets alone, without reading a record
    anew      topics that were made anew meanwhile    checkpoint  what of Spark's own folder is read and changed

Exactly once without a transaction: a batch's number and offsets are in Spark's checkpoint before it runs, and its
sums replace the folder of that number; who repeats a batch writes the same again. Refuses to read bodies, contracts
and settings: topics and their channels are handed in.
"""
