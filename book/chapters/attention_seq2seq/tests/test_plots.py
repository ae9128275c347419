"""The figures of the chapter: queries are rows, every word has its map, and labels must fit."""

import matplotlib.pyplot as plt
import pytest
import torch

from chapters.attention_seq2seq.plots import plot_attention_map, plot_caption, plot_strips
from tests.helpers import unchecked

IMAGES = torch.rand(3, 1, 14, 56, generator=torch.Generator().manual_seed(0))


@pytest.fixture(autouse=True)
def _close_figures():
    yield
    plt.close("all")


def test_map_has_queries_as_rows():
    weights = torch.tensor([[0.0, 0.25, 0.75], [1.0, 0.0, 0.0]])
    axes = plot_attention_map(weights, ["p", "q"], ["a", "b", "c"], title="map")
    (image,) = axes.get_images()
    assert image.get_array().tolist() == weights.tolist()
    assert image.get_clim() == (0.0, 1.0)
    assert [label.get_text() for label in axes.get_yticklabels()] == ["p", "q"]
    assert [label.get_text() for label in axes.get_xticklabels()] == ["a", "b", "c"]
    assert (axes.get_xlabel(), axes.get_ylabel(), axes.get_title()) == ("key", "query", "map")


def test_map_refuses_labels_that_do_not_fit():
    weights = torch.zeros(2, 3)
    with unchecked():
        with pytest.raises(ValueError, match="expected 2 labels, one for each row, got 3"):
            plot_attention_map(weights, ["a", "b", "c"])
        with pytest.raises(ValueError, match="expected 3 labels, one for each column, got 1"):
            plot_attention_map(weights, None, ["a"])
    assert plot_attention_map(weights, axes=plt.figure().add_subplot()).get_title() == ""


def test_strips_stand_under_their_titles():
    axes = plot_strips(IMAGES, ["a", "b", "c"], columns=2)
    panels = axes.figure.axes
    assert [panel.get_title() for panel in panels] == ["a", "b", "c"]
    for panel, picture in zip(panels, IMAGES, strict=True):
        assert torch.equal(torch.tensor(panel.get_images()[0].get_array()), picture[0])
    with unchecked(), pytest.raises(ValueError, match="expected 3 titles, one a picture, got 2"):
        plot_strips(IMAGES, ["a", "b"])


def test_each_word_lies_over_the_whole_picture():
    maps = torch.rand(2, 7, 28)
    axes = plot_caption(IMAGES[0], ["three", "<eos>"], maps)
    panels = axes.figure.axes
    assert [panel.get_ylabel() for panel in panels] == ["three", "<eos>"]
    for panel, weights in zip(panels, maps, strict=True):
        picture, overlay = panel.get_images()
        assert torch.equal(torch.tensor(overlay.get_array()), weights)
        assert tuple(picture.get_extent()) == tuple(overlay.get_extent())
    with unchecked(), pytest.raises(ValueError, match="expected 2 words, one a map, got 1"):
        plot_caption(IMAGES[0], ["three"], maps)
