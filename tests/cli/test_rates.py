from stanchion import Stanchion
from stanchion.context.declarations.rates import stored_rates
from stanchion.ops.audit import AuditLog
from stanchion.stores.rules.capacity.declared_rates import KIND, StoredRate
from tests.cli.conftest import Run

STRIPE = "key:stripe"


def declare(app: Stanchion) -> None:
    """Declare rates, and store them."""
    app.rate("stripe", "20/s")
    app.task(name="shop.pay", rate="36/h")(lambda: None)
    app.queue("mail").push(1)


def test_lists_them(run: Run, app: Stanchion) -> None:
    declare(app)
    heading, *rows = run("rates").out.splitlines()
    assert heading.split() == ["RATE", "IN", "FORCE", "DECLARED"]
    assert [row.split() for row in rows] == [[STRIPE, "20/s", "20/s"], ["task:shop.pay", "36/h", "36/h"]]
    found = run("rates", "--json").json
    assert found[0] == {"name": STRIPE, "per_second": 20.0, "declared": 20.0}


def test_none_is_nothing_found(run: Run) -> None:
    run("setup")
    assert run("rates").code == 1
    assert run("rates", "--json").json == []


def test_set_and_reset(run: Run, app: Stanchion) -> None:
    declare(app)
    assert run("rates", "set", STRIPE, "300/m").out == f"{STRIPE}: 5/s\n"
    assert stored_rates(app.store, [STRIPE]) == [StoredRate(STRIPE, 5.0, 20.0)]
    assert run("rates").out.splitlines()[1].split() == [STRIPE, "5/s", "20/s"]
    assert run("rates", "reset", STRIPE, "--json").json == {"name": STRIPE, "per_second": 20.0}
    assert stored_rates(app.store, [STRIPE]) == [StoredRate(STRIPE, 20.0, 20.0)]
    entries, _ = AuditLog(lambda: app.store).newest(9)
    assert [entry.note for entry in entries if entry.act == "set rate"] == ["20/s → 5/s"]
    assert "rate must be" in run("rates", "set", STRIPE, "fast").error


def test_a_rate_that_no_code_declares(run: Run, app: Stanchion) -> None:
    declare(app)
    answer = run("rates", "set", "key:strype", "5/s")
    assert (answer.code, stored_rates(app.store, ["key:strype"])) == (2, [])
    assert "known: key:stripe, task:shop.pay" in answer.error
    assert "such as key:stripe" in run("rates", "set", "--new", "stripe", "5/s").error
    assert run("rates", "set", "--new", "key:crm", "5/s").code == 0
    assert stored_rates(app.store, ["key:crm"]) == [StoredRate("key:crm", 5.0, None)]
    assert "no code has declared" in run("rates", "reset", "key:crm").error


def test_delete(run: Run, app: Stanchion) -> None:
    declare(app)
    assert app.store.compare_and_set(KIND, "key:odd", "fast", 0)
    assert run("rates").out.splitlines()[1].split() == ["key:odd", "unreadable"]
    assert run("rates", "delete", "key:odd").out == "key:odd: deleted\n"
    assert run("rates", "delete", "task:shop.pay").code == 0
    assert [rate.name for rate in stored_rates(app.store)] == [STRIPE]
    assert run("rates", "delete", "task:shop.pay").code == 2
