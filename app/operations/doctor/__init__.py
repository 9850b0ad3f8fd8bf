"""`penstock doctor`: facts about an installation and its surroundings, and what they mean."""
