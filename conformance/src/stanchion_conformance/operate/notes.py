"""Notes: small texts under a name, changed by compare-and-set."""

from __future__ import annotations

import json

from stanchion.stores.protocol import Store
from stanchion.stores.records.values import Note
from stanchion_conformance.harness import NewStore, all_at_once

KIND = "schedule"
WRITERS = 4
ROUNDS = 20


class TestNotes:
    def test_one_is_there_once_it_is_set(self, store: Store, other_store: Store) -> None:
        assert store.notes(KIND) == []
        assert store.set_note(KIND, "a", "one", 0)
        assert other_store.notes(KIND) == [Note("a", "one", 1)]
        assert other_store.set_note(KIND, "a", "two", 1)
        assert store.notes(KIND) == [Note("a", "two", 2)]

    def test_are_listed_by_name_each_kind_for_itself(self, store: Store) -> None:
        for name in ("b", "a", "B", "é", "a b"):
            assert store.set_note(KIND, name, name.upper(), 0)
        assert store.set_note("other", "a", "another", 0)
        assert [(note.name, note.text) for note in store.notes(KIND)] == [
            (name, name.upper()) for name in sorted(("b", "a", "B", "é", "a b"))
        ]
        assert store.notes("other") == [Note("a", "another", 1)]
        assert store.notes("unknown") == []

    def test_a_version_that_is_not_the_stored_one_changes_nothing(self, store: Store, other_store: Store) -> None:
        assert not store.set_note(KIND, "a", "one", 1)
        assert store.notes(KIND) == []
        assert store.set_note(KIND, "a", "one", 0)
        assert store.set_note(KIND, "a", "two", 1)
        for version in (0, 1, 3):
            assert not other_store.set_note(KIND, "a", "three", version)
            assert not other_store.set_note(KIND, "a", None, version)
        assert store.notes(KIND) == [Note("a", "two", 2)]

    def test_the_same_text_again_is_a_change_too(self, store: Store) -> None:
        assert store.set_note(KIND, "a", "one", 0)
        assert store.set_note(KIND, "a", "one", 1)
        assert store.notes(KIND) == [Note("a", "one", 2)]

    def test_none_deletes_and_begins_anew(self, store: Store) -> None:
        assert store.set_note(KIND, "a", "one", 0)
        assert store.set_note(KIND, "b", "one", 0)
        assert store.set_note(KIND, "a", None, 1)
        assert [note.name for note in store.notes(KIND)] == ["b"]
        assert not store.set_note(KIND, "a", "two", 1)
        assert store.set_note(KIND, "a", None, 0)
        assert store.set_note(KIND, "a", "two", 0)
        assert store.notes(KIND)[0] == Note("a", "two", 1)

    def test_hold_any_text(self, store: Store, other_store: Store) -> None:
        texts = ["", json.dumps({"a": [1, "ü 🦆\n\x1f'\"%:s\\"]}), "{}" * 100_000, "ü 🦆\n\x1e\x1f"]
        for number, text in enumerate(texts):
            assert store.set_note(KIND, f"{number}", text, 0)
        assert [note.text for note in other_store.notes(KIND)] == texts

    def test_names_may_be_anything_printable(self, store: Store) -> None:
        names = sorted(["x" * 200, "{a}", "a:b", "a.b", "$a", "%", "🦆", "o'hara"])
        for name in names:
            assert store.set_note(KIND, name, name, 0)
        assert [note.name for note in store.notes(KIND)] == names
        for name in names:
            assert store.set_note(KIND, name, None, 1)
        assert store.notes(KIND) == []

    def test_one_of_many_wins_each_version(self, store: Store, new_store: NewStore) -> None:
        won: list[int] = []

        def work(mine: Store, number: int) -> None:
            for round_ in range(ROUNDS):
                if mine.set_note(KIND, "a", f"{number}", round_):
                    won.append(round_)
                while (mine.notes(KIND) or [Note("a", "", 0)])[0].version <= round_:
                    pass

        stores = [store, *(new_store() for _ in range(WRITERS - 1))]
        all_at_once([lambda one=one, n=n: work(one, n) for n, one in enumerate(stores)])  # type: ignore[misc]
        assert sorted(won) == list(range(ROUNDS))
        assert store.notes(KIND)[0].version == ROUNDS
