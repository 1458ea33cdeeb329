"""Reading what a port serves."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from typing import Any

from prometheus_client import Metric
from prometheus_client.parser import text_string_to_metric_families


def get(port: int, path: str) -> tuple[int, str]:
    """Return the status and the body."""
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=30) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()


def probe(port: int, path: str) -> tuple[int, Any]:
    """Return the status of a probe, and what is wrong."""
    status, body = get(port, path)
    return status, json.loads(body)["reason"]


def families(port: int) -> dict[str, Metric]:
    """Return the metrics, by name."""
    status, text = get(port, "/metrics")
    assert status == 200, text
    return {family.name: family for family in text_string_to_metric_families(text)}


def value(port: int, sample: str, **labels: str) -> float | None:
    """Return the value of a sample with at least these labels; None if there is none."""
    for family in families(port).values():
        for one in family.samples:
            if one.name == sample and labels.items() <= one.labels.items():
                return float(one.value)
    return None
