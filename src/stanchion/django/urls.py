"""The addresses of the page: `path("queues/", include("stanchion.django.urls"))`.

Add `{"backend": "reports"}` as the third argument of `path` for the store of another backend.
"""

from __future__ import annotations

from django.urls import path

from stanchion.django.page import page

app_name = "stanchion"

urlpatterns = [path("", page, name="page"), path("<path:path>", page)]
