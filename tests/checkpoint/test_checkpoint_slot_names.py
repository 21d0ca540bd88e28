"""Which name a slot has in a checkpoint, where optimizers name it otherwise in the program."""
import pytest

from sok1x.checkpoint.files import slot_names

TABLE = "ads/EmbeddingVariable"


def matched(saved, wanted, *tables, scoped=()):
    found = slot_names.matched({part: part for part in wanted}, saved, tables or (TABLE,), dict(scoped))
    return {part: then for then, part in found.items()}


@pytest.mark.parametrize("saved, wanted", [
    ("Adam/{}/m", "{0}/{0}/m"), ("m/{}", "Adam/m/{}"), ("m/{}", "{0}/m/{0}"), ("{}/Adam_1", "{0}/{0}/Adam_1/"),
    ("training/Adam/{}/m", "Adam/{}/m"), ("{0}/{0}/m", "Adam/{}/m")])
def test_a_slot_under_another_name(saved, wanted):
    saved, wanted = ("slot:" + name.format(TABLE) for name in (saved, wanted))
    assert matched(["rows", saved], ["rows", wanted]) == {"rows": "rows", wanted: saved}


@pytest.mark.parametrize("saved, wanted", [
    (["Adam/{}/m"], ["Nadam/{}/m"]),            # another optimizer
    (["Adam/{}/m"], ["Adam/{}/v"]),             # another slot
    (["Adam/{}/m", "m/{}"], ["{0}/{0}/m"]),     # two that fit
    (["{}/Adam"], ["{}/Adam", "{0}/{0}/Adam/"]),  # one that is taken
    (["m/{}"], ["Adam/m/{}", "{0}/{0}/m"]),     # one for two
    (["m/other/EmbeddingVariable"], ["Adam/m/{}"])])  # another table
def test_nothing_that_is_not_certain(saved, wanted):
    saved, wanted = (["slot:" + name.format(TABLE) for name in names] for names in (saved, wanted))
    assert matched(saved, wanted) == {part: part for part in wanted}


def test_a_table_under_its_former_name():
    tables = "EmbeddingVariable", TABLE
    assert matched(["slot:Adam/EmbeddingVariable/m"], ["slot:m/" + TABLE], *tables) == {
        "slot:m/" + TABLE: "slot:Adam/EmbeddingVariable/m"}


@pytest.mark.parametrize("saved, fits", [("Adam/{}/m", True), ("training/Adam/{}/m", True), ("Adamax/{}/m", False)])
def test_an_optimizer_that_is_known_by_its_name(saved, fits):
    saved, wanted = "slot:" + saved.format(TABLE), "slot:{0}/{0}/m".format(TABLE)
    found = matched([saved], [wanted], scoped={wanted: "slot:Adam/{}/m".format(TABLE)})
    assert found == {wanted: saved if fits else wanted}
