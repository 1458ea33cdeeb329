"""The web server of the shop."""

from __future__ import annotations

from typing import Any

from flask import Flask, abort, current_app, g, request
from sqlalchemy.exc import NoResultFound

from tests.shops.flask_shop import jobs
from tests.shops.flask_shop.models import Order


def create_app() -> Flask:
    """Return the server."""
    web = Flask(__name__)
    web.config["CARRIER"] = "post"

    @web.before_request
    def open_session() -> None:
        g.session = jobs.Session()

    @web.teardown_request
    def close_session(_error: BaseException | None) -> None:
        g.session.close()  # rolls back what was not committed

    @web.post("/orders")
    def order() -> tuple[dict[str, Any], int]:
        articles = list(request.get_json()["articles"])
        placed = Order(articles=",".join(articles))
        g.session.add(placed)
        g.session.flush()
        placed.flow = jobs.fulfil(placed.id, articles, current_app.config["CARRIER"], g.session)
        if "sold out" in articles:
            abort(409)
        g.session.commit()
        return {"order": placed.id}, 201

    @web.get("/orders/<int:number>")
    def show(number: int) -> dict[str, Any]:
        try:
            flow = jobs.app.flow(g.session.get_one(Order, number).flow)
        except NoResultFound:
            abort(404)
        state = flow.get_state()
        parcel = flow.result(timeout=0) if state == "done" else None
        return {"state": state, "parcel": parcel}

    @web.post("/jobs/<job>/retry")
    def retry(job: str) -> dict[str, str]:
        return {"state": jobs.app.retry_job(job).state}

    return web
