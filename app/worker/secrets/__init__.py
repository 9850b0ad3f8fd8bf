"""Files with passwords, certificates and tokens: read, watched, and used as soon as they change."""
