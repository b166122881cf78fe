"""Arrays of .npy files, as other programs left them."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from plots.lib.inputs import InputError, one_line, opened


def read_npy(path: Path, kinds: str = "fiub") -> np.ndarray:
    """The array, mapped and not read; its elements are of one of NumPy's kinds. Throws InputError where it is none."""
    with opened(path):
        pass  # a regular file, which can be read
    try:
        array: np.ndarray = np.load(path, allow_pickle=False, mmap_mode="r")
    except Exception as error:  # NumPy parses a header as Python: a broken one raises what the parser raises, too
        raise InputError(f"{path}: is no .npy file of numbers ({one_line(str(error))}): name another file.") from None
    if not isinstance(array, np.ndarray):
        raise InputError(f"{path}: is an archive of arrays, not one array: name a .npy file.")
    if array.dtype.kind not in kinds:
        raise InputError(f"{path}: holds elements of type {array.dtype}, which are not the numbers that belong here.")
    return array
