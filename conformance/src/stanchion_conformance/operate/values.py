"""Versioned values: small texts under a name, changed by compare-and-set."""

from __future__ import annotations

import json

from stanchion.stores.protocol import Store
from stanchion.stores.records.values import VersionedValue
from stanchion_conformance.harness import NewStore, all_at_once

KIND = "schedule"
WRITERS = 4
ROUNDS = 20


class TestValues:
    def test_one_is_there_once_it_is_set(self, store: Store, other_store: Store) -> None:
        assert store.values(KIND) == []
        assert store.compare_and_set(KIND, "a", "one", 0)
        assert other_store.values(KIND) == [VersionedValue("a", "one", 1)]
        assert other_store.compare_and_set(KIND, "a", "two", 1)
        assert store.values(KIND) == [VersionedValue("a", "two", 2)]

    def test_are_listed_by_name_each_kind_for_itself(self, store: Store) -> None:
        for name in ("b", "a", "B", "é", "a b"):
            assert store.compare_and_set(KIND, name, name.upper(), 0)
        assert store.compare_and_set("other", "a", "another", 0)
        assert [(value.name, value.text) for value in store.values(KIND)] == [
            (name, name.upper()) for name in sorted(("b", "a", "B", "é", "a b"))
        ]
        assert store.values("other") == [VersionedValue("a", "another", 1)]
        assert store.values("unknown") == []

    def test_are_read_by_name(self, store: Store, other_store: Store) -> None:
        for name in ("a", "b", "é", "B"):
            assert store.compare_and_set(KIND, name, name * 2, 0)
        assert store.compare_and_set("other", "c", "another", 0)
        assert other_store.values(KIND, ["b"]) == [VersionedValue("b", "bb", 1)]
        names = ("é", "a", "c", "unknown", "B", "a")
        assert [value.text for value in other_store.values(KIND, names)] == ["BB", "aa", "éé"]
        assert store.values(KIND, []) == store.values(KIND, ["c"]) == store.values("unknown", ["a"]) == []

    def test_a_version_that_is_not_the_stored_one_changes_nothing(self, store: Store, other_store: Store) -> None:
        assert not store.compare_and_set(KIND, "a", "one", 1)
        assert store.values(KIND) == []
        assert store.compare_and_set(KIND, "a", "one", 0)
        assert store.compare_and_set(KIND, "a", "two", 1)
        for version in (0, 1, 3):
            assert not other_store.compare_and_set(KIND, "a", "three", version)
            assert not other_store.compare_and_set(KIND, "a", None, version)
        assert store.values(KIND) == [VersionedValue("a", "two", 2)]

    def test_the_same_text_again_is_a_change_too(self, store: Store) -> None:
        assert store.compare_and_set(KIND, "a", "one", 0)
        assert store.compare_and_set(KIND, "a", "one", 1)
        assert store.values(KIND) == [VersionedValue("a", "one", 2)]

    def test_none_deletes_and_begins_anew(self, store: Store) -> None:
        assert store.compare_and_set(KIND, "a", "one", 0)
        assert store.compare_and_set(KIND, "b", "one", 0)
        assert store.compare_and_set(KIND, "a", None, 1)
        assert [value.name for value in store.values(KIND)] == ["b"]
        assert not store.compare_and_set(KIND, "a", "two", 1)
        assert store.compare_and_set(KIND, "a", None, 0)
        assert store.compare_and_set(KIND, "a", "two", 0)
        assert store.values(KIND)[0] == VersionedValue("a", "two", 1)

    def test_hold_any_text(self, store: Store, other_store: Store) -> None:
        texts = ["", json.dumps({"a": [1, "ü 🦆\n\x1f'\"%:s\\"]}), "{}" * 100_000, "ü 🦆\n\x1e\x1f"]
        for number, text in enumerate(texts):
            assert store.compare_and_set(KIND, f"{number}", text, 0)
        assert [value.text for value in other_store.values(KIND)] == texts

    def test_names_may_be_anything_printable(self, store: Store) -> None:
        names = sorted(["x" * 200, "{a}", "a:b", "a.b", "$a", "%", "🦆", "o'hara"])
        for name in names:
            assert store.compare_and_set(KIND, name, name, 0)
        assert [value.name for value in store.values(KIND)] == names
        for name in names:
            assert [value.name for value in store.values(KIND, [name])] == [name]
            assert store.compare_and_set(KIND, name, None, 1)
        assert store.values(KIND) == []

    def test_one_of_many_wins_each_version(self, store: Store, new_store: NewStore) -> None:
        won: list[int] = []

        def work(mine: Store, number: int) -> None:
            for round_ in range(ROUNDS):
                if mine.compare_and_set(KIND, "a", f"{number}", round_):
                    won.append(round_)
                while (mine.values(KIND) or [VersionedValue("a", "", 0)])[0].version <= round_:
                    pass

        stores = [store, *(new_store() for _ in range(WRITERS - 1))]
        all_at_once([lambda one=one, n=n: work(one, n) for n, one in enumerate(stores)])  # type: ignore[misc]
        assert sorted(won) == list(range(ROUNDS))
        assert store.values(KIND)[0].version == ROUNDS
