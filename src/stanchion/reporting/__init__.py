"""`stanchion report`: what became of finished jobs, on one page. Python counts them, or Spark in `stanchion.spark`."""

from __future__ import annotations

from stanchion.reporting.report import Report, report

__all__ = ["Report", "report"]
