"""Resources: their kinds, the reader of their objects, destinations and conditions."""
