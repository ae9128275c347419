"""The task of the roles: each sentence has its counterpart, and order alone decides."""

import pytest
import torch

from chapters.self_attention.roles import (
    GRUModel,
    RoleModel,
    role_sentences,
    roles_right,
    sentence_ids,
    train_roles,
)


def test_each_sentence_stands_there_once_in_either_order():
    sentences = role_sentences()
    assert len(sentences) == len(set(sentences)) == 8 * 7 * 4
    assert {" ".join(reversed(one.split())) for one in sentences} == set(sentences)
    assert "dog bites man" in sentences


def test_without_positions_a_model_is_right_half_of_the_nouns_whatever_its_parameters():
    torch.manual_seed(0)
    words = sentence_ids(role_sentences())
    model = RoleModel(positions=False).double()
    with torch.no_grad():
        model.read.bias += torch.tensor([9.0, -9.0, 0.0])  # "who" for every word
        answers = model(words)
    torch.testing.assert_close(model(words.flip(1)).flip(1), answers, check_dtype=False)
    assert roles_right(model) == pytest.approx(1 / 3)  # half of the nouns, no verb


@pytest.mark.slow
@pytest.mark.parametrize(
    ("make", "right"),
    [(RoleModel, 2 / 3), (lambda: RoleModel(positions=True), 1.0), (GRUModel, 1.0)],
)
def test_training_reaches_what_is_possible(make, right):
    assert roles_right(train_roles(3, make)) == pytest.approx(right)
