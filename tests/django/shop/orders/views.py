"""The views of the shop."""

from __future__ import annotations

from django.db import transaction
from django.http import HttpRequest, JsonResponse
from django.shortcuts import get_object_or_404
from django.views.decorators.csrf import csrf_exempt
from django.views.decorators.http import require_POST

from .models import Order
from .tasks import charge


class SoldOutError(Exception):
    """The article is gone."""


@csrf_exempt
@require_POST
def place(request: HttpRequest) -> JsonResponse:
    """Store an order and its task in one transaction."""
    try:
        with transaction.atomic():
            order = Order.objects.create(article=request.POST["article"])
            order.result_id = charge.enqueue(order.pk).id
            order.save(update_fields=["result_id"])
            if order.article == "sold out":
                raise SoldOutError
    except SoldOutError:
        return JsonResponse({"error": "sold out"}, status=409)
    return JsonResponse({"order": order.pk, "result": order.result_id}, status=201)


def show(_request: HttpRequest, number: int) -> JsonResponse:
    """Return the state of an order."""
    order = get_object_or_404(Order, pk=number)
    result = charge.get_result(order.result_id)
    value = result.return_value if result.status == "SUCCESSFUL" else None
    return JsonResponse({"status": result.status, "paid": order.paid, "value": value})
