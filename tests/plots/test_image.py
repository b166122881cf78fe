"""The image rebuilt from labels and centroids."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from matplotlib.figure import Figure

from plots import draw
from plots.figures import image
from plots.lib import schema
from plots.lib.options import Options

pytest_plugins = ("figure_fixtures",)


def test_the_photo_is_rebuilt_from_labels_and_centroids(
    pictures: Path, figures: dict[str, Figure], tmp_path: Path
) -> None:
    drawn, left_out = image.draw(schema.load(pictures), tmp_path, Options())
    assert [stem for stem, _ in drawn] == ["photo_snapshot"]
    assert left_out == []
    images = [ax.get_images()[0].get_array() for ax in figures["photo_snapshot"].axes]
    assert [picture.shape for picture in images] == [(4, 6, 3)] * 3
    assert images[0][0, 5, 0] == pytest.approx(50 / 255)
    assert images[1][0, 1].tolist() == pytest.approx([1, 0, 0.2])
    assert images[2][0, 2].tolist() == pytest.approx([0, 1, 0])
    captions = [ax.get_title(loc="left") for ax in figures["photo_snapshot"].axes]
    assert captions[0] == "original: 24 colours"
    assert captions[2].startswith("K = 3 colours")


def test_a_photo_without_dump_or_data_is_left_out_with_its_reason(
    pictures: Path, figures: dict[str, Figure], tmp_path: Path
) -> None:
    (tmp_path / "dump/g1_plain/snapshot_k3/labels.npy").unlink()
    _, left_out = image.draw(schema.load(pictures), tmp_path, Options())
    assert left_out == ["photo (snapshot_k3): no row has a dump beside the record, run with --dump"]
    assert len(figures["photo_snapshot"].axes) == 2
    (tmp_path / "cache/snapshot.npy").unlink()
    drawn, left_out = image.draw(schema.load(pictures), tmp_path, Options())
    assert drawn == []
    assert "snapshot.npy is missing" in left_out[0]


def test_a_dump_that_does_not_fit_is_an_error(
    pictures: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    np.save(tmp_path / "dump/g1_plain/snapshot_k2/labels.npy", np.full(24, 2, np.int32))
    assert draw.main([str(pictures), "--out", str(tmp_path / "out"), "--only", "photo"]) == 2
    assert "holds labels outside 0 .. 1" in capsys.readouterr().err
