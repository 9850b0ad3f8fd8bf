"""The resources: their kinds, how their objects are read, destinations and conditions."""
