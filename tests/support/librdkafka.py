"""What the Python client does not offer, through librdkafka's own functions. Only what tests need."""

from __future__ import annotations

import ctypes
from pathlib import Path
from typing import Any

import confluent_kafka
from confluent_kafka import KafkaError, Producer

# rd_kafka_vtype_t: the kind of each argument of rd_kafka_producev
_END, _TOPIC, _PARTITION, _VALUE, _MSGFLAGS, _HEADER = 0, 1, 3, 4, 7, 9
_COPY = 2  # RD_KAFKA_MSG_F_COPY
_PRODUCE = 0  # the API key of produce requests


def _library() -> ctypes.CDLL:
    folder = Path(confluent_kafka.__file__).parent.parent / "confluent_kafka.libs"
    return ctypes.CDLL(str(next(folder.glob("librdkafka*"))))


def _handle(client: Producer) -> ctypes.c_void_p:
    """The client's handle is the first thing in the Python object."""
    return ctypes.c_void_p(ctypes.c_void_p.from_address(id(client) + object.__basicsize__).value)


def make_fatal(client: Producer) -> None:
    """As after an error that ends an idempotent producer for good."""
    assert _library().rd_kafka_test_fatal_error(_handle(client), KafkaError.INVALID_PRODUCER_EPOCH, b"by a test") == 0


def refuse_produce_requests(client: Producer, *errors: int) -> None:
    """The client's own mock cluster (`test.mock.num.brokers`) answers its next produce requests with these errors."""
    library = _library()
    library.rd_kafka_handle_mock_cluster.restype = ctypes.c_void_p
    cluster = ctypes.c_void_p(library.rd_kafka_handle_mock_cluster(_handle(client)))
    codes = [ctypes.c_int(error) for error in errors]
    library.rd_kafka_mock_push_request_errors(cluster, ctypes.c_int16(_PRODUCE), ctypes.c_size_t(len(codes)), *codes)


def produce(bootstrap: str, topic: str, value: bytes, header: tuple[bytes, bytes], partition: int = 0) -> None:
    """One record with one header whose name may be any bytes without NUL; stored when this returns."""
    producer = Producer({"bootstrap.servers": bootstrap})
    size, number = ctypes.c_size_t, ctypes.c_int
    arguments: list[Any] = [
        number(_TOPIC), ctypes.c_char_p(topic.encode()),
        number(_PARTITION), ctypes.c_int32(partition),
        number(_MSGFLAGS), number(_COPY),
        number(_VALUE), ctypes.c_char_p(value), size(len(value)),
        number(_HEADER), ctypes.c_char_p(header[0]), ctypes.c_char_p(header[1]), ctypes.c_ssize_t(len(header[1])),
        number(_END),
    ]  # fmt: skip
    assert _library().rd_kafka_producev(_handle(producer), *arguments) == 0
    assert producer.flush(180) == 0
