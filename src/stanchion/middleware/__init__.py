"""Middleware for logs, Sentry and Django, to pass to `app.middleware`. Each needs its library only where it is made."""

from stanchion.middleware.django import DjangoConnections
from stanchion.middleware.log_context import LogContext
from stanchion.middleware.sentry import Sentry

__all__ = ["DjangoConnections", "LogContext", "Sentry"]
