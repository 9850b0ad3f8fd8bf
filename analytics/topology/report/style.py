"""Sizes of the map, in pixels: one table of what belongs together."""

from __future__ import annotations

from typing import NamedTuple


class Style(NamedTuple):
    """A box has the width of its name, between two limits; arrows pass through the gaps."""

    height: float = 40.0  #: of a box
    least_width: float = 108.0
    most_width: float = 264.0
    beside_text: float = 50.0  #: bar, icon and padding
    name: float = 12.5  #: size of letters
    caption: float = 10.5  #: of captions and labels
    row_width: float = 1160.0  #: of boxes without arrows
    grid_gap: float = 16.0  #: between these
    gap_y: float = 12.0  #: between the cells of a column
    gap_x: float = 26.0  #: between columns
    step_height: float = 8.0  #: of an arrow that passes through a column
    label_height: float = 16.0
    swimlane_head: float = 26.0  #: space for the title of a swimlane
    swimlane_foot: float = 16.0
    swimlane_gap: float = 14.0
    margin: float = 18.0


STYLE = Style()
