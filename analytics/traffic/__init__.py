"""The traffic job: what went through each channel and to each subscription, in windows of a minute, an hour and a day.

    channel topics ----headers, lengths----> frames --\\
                                                        > windows of a batch --> days of the tables --> commit
    topic <instance>.traffic ---deltas-----> deltas --/                        read: for other programs, without Spark

    job       one batch after the other, the summary     dataset  the folder: days, commits, ages, the lock
    frames    windows of records, sums of windows        days     what a batch adds, written by Spark and checked
    deltas    which records are deltas, and which new    seen     the numbers of deltas that were counted
    topic_identity  topics that were replaced, what is read next      offsets  rates from offsets, without a record
    totals    sums of a batch                            migrate  tables of the former format

Each event counts exactly once, without a transaction: a commit names files and the position in Kafka, and what no
commit names does not count.

Does not read bodies, contracts or settings: the caller passes topics and their channels.
"""
