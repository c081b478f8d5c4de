"""What a connector does on the host with the slots of a step: which rows follow one another, and where they go."""

import numpy as np


def runs(slots, page_tokens):
    """Runs of slots that follow one another inside a page: pages, first rows and lengths, as arrays. −1 is padding."""
    slots = slots[slots >= 0]
    if len(slots) == 0:
        return slots, slots, slots
    follows = (np.diff(slots) == 1) & (slots[1:] % page_tokens != 0)
    firsts = np.concatenate([[0], np.flatnonzero(~follows) + 1])
    lengths = np.diff(firsts, append=len(slots))
    return slots[firsts] // page_tokens, slots[firsts] % page_tokens, lengths
