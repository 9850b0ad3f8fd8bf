"""`penstock export`: objects of a cluster as files of a directory."""
