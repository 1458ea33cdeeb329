"""The addresses of the shop."""

from django.contrib import admin
from django.urls import include, path
from orders import views

urlpatterns = [
    path("admin/", admin.site.urls),
    path("orders/", views.place),
    path("orders/<int:number>/", views.show),
    path("queues/", include("stanchion.django.urls")),
    path("ops/reports/", include("stanchion.django.urls", namespace="reports"), {"backend": "reports"}),
]
