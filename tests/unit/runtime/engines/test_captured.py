"""The batches that captures have kept."""

import numpy as np
import pyarrow as pa

from tidewheel.runtime.engines.captured import Captured, CapturedBatches


def test_a_notebook_shows_the_first_records_with_their_times() -> None:
    """Of batches of any kind; a time may be any value."""
    kept = [Captured((0, 1), pa.table({"x": [1, 2]})), Captured((1, 0), [{"x": "<i>", "y": 3}])]
    shown = CapturedBatches(kept)._repr_html_()
    assert "captured: 3 records</caption>" in shown
    assert "<tr><th>time</th><th>x</th><th>y</th></tr>" in shown
    assert "<tr><td>(0, 1)</td><td>1</td><td></td></tr>" in shown
    assert "<tr><td>(1, 0)</td><td>&lt;i&gt;</td><td>3</td></tr>" in shown
    many = CapturedBatches([Captured(0, np.arange(50))])._repr_html_()
    assert "50 records, of which 20 are shown" in many
    assert "captured: 0 records" in CapturedBatches([])._repr_html_()
