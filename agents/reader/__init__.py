"""The reader of a topic: reads it once in this process, for all of its members, Subscriptions or Triggers.

    thread          TopicReader   poll -> ranges of the log ----+        CatchUp   the same again, for who is behind
    event loop                                                  v                      |
                    Members       one range, to each member ----+----------------------+
                    Member        filter, budget, position -> deliveries -> its agent; its commits

Who owns what:

    group_consumer, membership    the client and its place in the group: joins, losses, when another client follows
    topic_reader                  the thread; the partitions that it reads, with positions; revocations and losses
    membership_check              whether Kafka still takes this process for the owner: no commit without that
    fetch, decode, settings       calls of the client; what they return
    backpressure, memory_budget   when the thread waits, and which partitions it pauses
    log_end_offsets, stall_detector, topic_identity   what the log is like, and what is wrong with it
    readers                       the topics of a process, and the clients that their members share
    members, port                 who is there; partitions that are open, and how far they were handed out
    member, selection             one Subscription or Trigger: its partitions, positions and commits; what it takes
    ranges                        the rule that makes any order of ranges safe
    catch_up, slices              turns of those who are behind; long work in small pieces
    look_back                     whether Kafka still has what it has confirmed

`agents/offsets` has what is known of a partition, and its commits.
"""
