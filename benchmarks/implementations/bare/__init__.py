"""The least that Python can do with httptools, uvloop and librdkafka: the yardstick of `make bench`."""
