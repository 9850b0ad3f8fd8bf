"""The traffic job: what went through each channel and to each subscription, in windows of one minute and one hour.

    channel topics ----headers, lengths----> query `records` --\\              one folder for each batch
                                                                 > partial sums --> batch=N/ --compaction--> upto=N/
    topic <instance>.traffic ---deltas-----> query `deltas` ---/               read.py merges them into windows

    frames    what Spark computes of a batch          store   the folder: batches, state, compaction, retention
    seen      which deltas were already counted       read    windows for other programs, without Spark
    job       the queries, their errors, the summary  offsets rates from offsets alone, without reading a record
    topic_identity  topics that were replaced         checkpoint  what is read and changed in Spark's own folder

Each event counts exactly once, without a transaction. Spark's checkpoint holds a batch's number and offsets before the
batch runs, and the sums replace the folder of that number, so a repeated batch writes the same sums again.

Does not read bodies, contracts or settings: the caller passes topics and their channels.
"""
