"""Every mutant fits the code as it is."""

from tests.mutants.mutant import REPOSITORY, mutants


def test_each_is_found_once_and_changes_something() -> None:
    for mutant in mutants():
        text = (REPOSITORY / mutant.file).read_text()
        assert mutant.applied_to(text) != text, mutant.name


def test_names_are_unique() -> None:
    names = [mutant.name for mutant in mutants()]
    assert len(set(names)) == len(names)
