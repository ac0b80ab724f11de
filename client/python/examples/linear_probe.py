"""A linear probe on the residual stream, and steering with what it learned.

    python linear_probe.py localhost:50051

Sentences that praise and sentences that complain are made here. A logistic
regression (numpy) learns from the residual row of each one's last token which
kind it is, and is tested on adjectives and subjects that it never saw. Its
direction is then added to the residual stream of neutral beginnings: how much
more likely do words of praise become than words of complaint?
"""
from __future__ import annotations

import argparse
import itertools
import time
from typing import Any, List, Sequence, Tuple

import numpy as np

import headrace
from headrace import interventions

PRAISE = ["wonderful", "excellent", "delightful", "superb", "lovely", "brilliant", "charming", "perfect",
          "marvelous", "fantastic", "pleasant", "beautiful"]
COMPLAINT = ["terrible", "awful", "horrible", "dreadful", "boring", "disgusting", "miserable", "useless",
             "disappointing", "unpleasant", "ugly", "pathetic"]
SUBJECTS = ["film", "meal", "concert", "book", "hotel", "journey", "lesson", "party"]
FRAMES = ["The {subject} was {adjective}", "Everyone said that the {subject} had been {adjective}",
          "It was such a {adjective} {subject}"]
BEGINNINGS = ["I went to the new restaurant and the food was", "My sister told me that her holiday was",
              "After the show we agreed that the actors were", "The weather during our trip was"]
GOOD, BAD = [" great", " good", " amazing", " delicious"], [" bad", " terrible", " awful", " poor"]


def sentences(adjectives: slice, subjects: slice) -> Tuple[List[str], np.ndarray[Any, Any]]:
    """Texts, and 1 for praise or 0 for complaint."""
    texts, labels = [], []
    for label, words in ((1, PRAISE), (0, COMPLAINT)):
        for frame, subject, adjective in itertools.product(FRAMES, SUBJECTS[subjects], words[adjectives]):
            texts.append(frame.format(subject=subject, adjective=adjective))
            labels.append(label)
    return texts, np.array(labels)


def last_rows(client: headrace.Client, texts: Sequence[str], layer: int) -> np.ndarray[Any, Any]:
    """The residual stream at the last token of each text: [texts, hidden_size]."""
    with headrace.Harvest(client, texts, hooks=["resid_post"], layers=[layer], rows=headrace.rows(prompt="last"),
                          seed=None, batch_rows=len(texts)) as harvest:
        return next(harvest).activations.astype(np.float64)


class Probe:
    """Logistic regression on standardised rows, by Newton's method."""

    def __init__(self, rows: np.ndarray[Any, Any], labels: np.ndarray[Any, Any], ridge: float = 10.0) -> None:
        self._mean, self._scale = rows.mean(0), rows.std(0) + 1e-6
        x = self._features(rows)
        self._weights = np.zeros(x.shape[1])
        for _ in range(8):
            p = 1 / (1 + np.exp(-x @ self._weights))
            gradient = x.T @ (p - labels) + ridge * self._weights
            hessian = (x.T * (p * (1 - p))) @ x + ridge * np.eye(len(self._weights))
            self._weights -= np.linalg.solve(hessian, gradient)

    def _features(self, rows: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        return np.hstack([(rows - self._mean) / self._scale, np.ones((len(rows), 1))])

    def accuracy(self, rows: np.ndarray[Any, Any], labels: np.ndarray[Any, Any]) -> float:
        return float(np.mean((self._features(rows) @ self._weights > 0) == labels))

    def direction(self) -> np.ndarray[Any, Any]:
        """Unit vector in the residual stream, towards praise."""
        direction = self._weights[:-1] / self._scale
        return np.asarray(direction / np.linalg.norm(direction))


def preference(client: headrace.Client, steer: Sequence[interventions.Intervention]) -> float:
    """Log odds of praise over complaint as the next word, over the beginnings."""
    good, bad = ([client.tokenize(word)[0] for word in words] for words in (GOOD, BAD))
    odds = []
    for text in BEGINNINGS:
        logits, _ = client.run_with_cache(text, hooks=[], rows=headrace.rows(prompt="last"), interventions=steer)
        odds.append(np.logaddexp.reduce(logits[0, good]) - np.logaddexp.reduce(logits[0, bad]))
    return float(np.mean(odds))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("address", nargs="?", default="localhost:50051")
    parser.add_argument("--layer", type=int, help="default: at two thirds")
    arguments = parser.parse_args()
    start = time.monotonic()
    with headrace.Client(arguments.address) as client:
        model = client.get_model()
        layer = model.num_hidden_layers * 2 // 3 if arguments.layer is None else arguments.layer

        texts, labels = sentences(slice(0, 8), slice(0, 5))
        rows = last_rows(client, texts, layer)
        probe = Probe(rows, labels)
        unseen, unseen_labels = sentences(slice(8, None), slice(5, None))
        print(f"{model.name}, resid_post of layer {layer}: {len(texts)} sentences, {rows.shape[1]} dimensions")
        print(f"probe: {probe.accuracy(rows, labels):.1%} right on them, "
              f"{probe.accuracy(last_rows(client, unseen, layer), unseen_labels):.1%} on {len(unseen)} with words "
              "it never saw")

        length = float(np.linalg.norm(rows, axis=1).mean())

        def add(direction: np.ndarray[Any, Any], strength: float) -> List[interventions.Intervention]:
            """`strength`: of a typical row's length."""
            return [interventions.add("resid_post", direction, layers=[layer], coefficient=strength * length)]

        for strength in (-0.4, -0.2, 0.0, 0.2, 0.4):
            steer = add(probe.direction(), strength)
            text = client.generate_text(BEGINNINGS[0], max_tokens=10, temperature=0, interventions=steer)
            print(f"steered by {strength:+.1f}: log odds of praise {preference(client, steer):+.2f}  ...{text!r}")
        random = np.random.default_rng(0).standard_normal(rows.shape[1])
        random /= np.linalg.norm(random)
        shift = [preference(client, add(random, strength)) for strength in (-0.4, 0.4)]
        print(f"a random direction by -0.4 and +0.4: {shift[0]:+.2f} and {shift[1]:+.2f}")
    print(f"{time.monotonic() - start:.0f} s")


if __name__ == "__main__":
    main()
