"""The HTTP/1.1 server under Faust's web views."""
