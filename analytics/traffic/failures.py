"""Explains in one sentence why a run ended; Spark's exceptions are pages of text from two languages.

An error without a known pattern gets the message of its innermost exception.
"""

from __future__ import annotations

import re

from analytics.spark.jvm_log import last_cause
from knative.errors import NotReadyError, PenstockError

_KAFKA_AWAY = re.compile(
    r"TimeoutException|Timeout of \d+ ?ms expired|DisconnectException|BrokerNotAvailable|Connection to node .* could"
    r"|No resolvable bootstrap|Failed to (?:create|construct).*[Kk]afka|Timed out waiting for a node|fetchMissingOffset"
)
_TOPIC_GONE = re.compile(
    r"UnknownTopicOrPartition|InvalidTopic|topic[^\n]{0,80}does not exist|Partitions? .*deleted", re.I
)
_NOT_ALLOWED = re.compile(
    r"TopicAuthorizationException|GroupAuthorizationException|SaslAuthentication|ClusterAuthorization"
)
_DISK = re.compile(r"No space left on device")
_DENIED = re.compile(r"Permission denied|Read-only file system|AccessDenied|Mkdirs failed")
_LOST = re.compile(
    r"SparkContext was shut down|Connection refused.*py4j|Answer from Java side is empty|ExecutorLost|"
    r"Master removed our application|All masters are unresponsive|stopped SparkContext"
)


def explain_failure(problem: BaseException, folder: str, bootstrap: str) -> PenstockError:
    """Returns the sentence and the hint for an exception of a run."""
    if isinstance(problem, PenstockError):
        return problem
    text = f"{type(problem).__name__}: {problem}"
    if _DISK.search(text):
        return PenstockError(
            f"The disk of {folder} or of Spark's temporary files is full.", "Free some space, and run the job again."
        )
    if isinstance(problem, ConnectionError):  # the only connection of this process is the one to the JVM
        return _spark_away()
    if (isinstance(problem, OSError) and not isinstance(problem, TimeoutError)) or _DENIED.search(text):
        return PenstockError(f"The tables in {folder} cannot be written ({last_cause(text)}).", "Fix the permissions.")
    if _TOPIC_GONE.search(text):
        return PenstockError(
            "A topic was deleted while the job read it.", "Run the job again: it counts the topics that exist."
        )
    if _NOT_ALLOWED.search(text):
        return PenstockError(
            "Kafka does not allow this user to read.", "Give this user READ and DESCRIBE on the topics."
        )
    if isinstance(problem, TimeoutError) or _KAFKA_AWAY.search(text):
        return NotReadyError(
            f"Kafka at {bootstrap} stopped answering.",
            "Run the job again when Kafka answers. Nothing is lost, and nothing counts twice.",
        )
    if _LOST.search(text):
        return _spark_away()
    return PenstockError(f"The job failed: {last_cause(text)}", "Run the job again: nothing counts twice.")


def _spark_away() -> PenstockError:
    return PenstockError("Spark became unavailable during the job.", "Run the job again: nothing counts twice.")
