"""Everything that is measured: each measure has its rows and a scene that gives the values of one round."""
