"""Versions: the same inputs give the same id; mixed inputs are refused; one writer of Parquet."""

import dataclasses

import pyarrow as pa
import pytest

from pipelines.dataset import (
    Dataset,
    Draft,
    MixedVersions,
    Part,
    Shard,
    Version,
    join_parts,
    read_table,
    rests_on,
    seal,
    write_shard,
)
from pipelines.store import Store, StoreError, digest


def rejects(*uris: str) -> pa.Table:
    return pa.table(
        {"source": ["s"] * len(uris), "uri": list(uris), "reason": ["r"] * len(uris), "detail": [None] * len(uris)}
    )


def draft(store: Store, *uris: str) -> Draft:
    return Draft({"rejects": Part("table", (write_shard(store, "rejects", rejects(*uris)),))})


def version(asset: str, partition: str, version_id: str, **more: object) -> Version:
    return Version(version_id, asset, partition, {}, {}, "1", **more)


def test_a_table_has_the_same_bytes_however_it_was_chunked(store: Store) -> None:
    whole = rejects("a", "b", "c")
    chunked = pa.concat_tables([whole.slice(0, 1), whole.slice(1, 2)])

    assert write_shard(store, "rejects", whole) == write_shard(store, "rejects", chunked)


def test_a_table_is_brought_into_its_schema(store: Store) -> None:
    table = rejects("a").select(["detail", "reason", "uri", "source"])  # other order, nulls without a type

    read = read_table(store, write_shard(store, "rejects", table).object)

    assert read.schema.names == ["source", "uri", "reason", "detail"]
    assert read.schema.field("detail").type == pa.large_string()


def test_a_missing_column_is_named(store: Store) -> None:
    with pytest.raises(ValueError, match="lacks the column 'reason'"):
        write_shard(store, "rejects", rejects("a").drop_columns(["reason"]))


def test_a_damaged_table_is_an_error_that_names_the_object(store: Store) -> None:
    shard = write_shard(store, "rejects", rejects("a"))
    store.path(shard.object).write_bytes(b"PAR1 broken")

    with pytest.raises(StoreError, match=shard.object[:16]):
        read_table(store, shard.object)


def test_the_same_content_gives_the_same_id_in_another_store(store: Store, tmp_path) -> None:
    other = Store(str(tmp_path / "elsewhere"))

    one = seal(store, draft(store, "a"), asset="x", partition="s", params={"n": 1})
    two = seal(other, draft(other, "a"), asset="x", partition="s", params={"n": 1})

    assert one.id == two.id


@pytest.mark.parametrize("change", [{"params": {"n": 2}}, {"code_version": "2"}, {"partition": "t"}, {"asset": "y"}])
def test_whatever_a_version_depends_on_changes_its_id(store: Store, change: dict) -> None:
    base = {"asset": "x", "partition": "s", "params": {"n": 1}, "code_version": "1"}

    assert seal(store, draft(store, "a"), **base).id != seal(store, draft(store, "a"), **(base | change)).id


def test_inputs_and_content_change_the_id(store: Store) -> None:
    upstream = [Dataset("u", (version("u", "", name),), store) for name in ("v1", "v2")]
    ids = {seal(store, draft(store, "a"), asset="x", inputs=[one]).id for one in upstream}
    ids |= {seal(store, draft(store, "b"), asset="x", inputs=upstream[:1]).id}

    assert len(ids) == 3


def test_weights_stay_out_of_a_models_id(store: Store) -> None:
    drafts = [Draft({"model": Part("files", (Shard(store.put(w), 1, name="weights"),))}) for w in (b"1", b"2")]

    assert len({seal(store, d, asset="m", volatile_parts=["model"]).id for d in drafts}) == 1
    assert len({seal(store, d, asset="m").id for d in drafts}) == 2


def test_a_version_reads_back_as_it_was_written(store: Store) -> None:
    made = seal(store, draft(store, "a"), asset="x", params={"n": 1.5}, actions=["k"])

    assert Version.load(store, made.id) == made


def test_partitions_that_rest_on_different_clusters_are_refused_by_name(store: Store) -> None:
    mixed = Dataset(
        "filtered",
        (
            version("filtered", "web", "f1", rests_on={"clusters": "c1"}),
            version("filtered", "books", "f2", rests_on={"clusters": "c2"}),
        ),
        store,
    )

    with pytest.raises(MixedVersions, match=r"filtered\[web\] on c1; filtered\[books\] on c2"):
        rests_on("mixture", [mixed])


def test_a_mix_over_two_inputs_is_refused_too(store: Store) -> None:
    clusters = Dataset("clusters", (version("clusters", "", "c2"),), store)
    unique = Dataset("unique", (version("unique", "web", "u1", rests_on={"clusters": "c1"}),), store)

    with pytest.raises(MixedVersions):
        rests_on("scores", [clusters, unique])


def test_a_consumer_rests_on_the_nearest_global_asset_only(store: Store) -> None:
    clusters = Dataset("clusters", (version("clusters", "", "c1", rests_on={"older": "o1"}),), store)

    assert rests_on("unique", [clusters]) == {"clusters": "c1"}


def test_a_dataset_narrows_to_named_partitions_and_says_what_is_missing(store: Store) -> None:
    data = Dataset("x", (version("x", "web", "v1"), version("x", "books", "v2")), store)

    assert data.of("books").version.id == "v2"
    with pytest.raises(KeyError, match="no partition 'code'; it has web, books"):
        data.of("code")
    with pytest.raises(ValueError, match="2 partitions"):
        _ = data.version


def test_parts_join_in_the_order_of_the_tasks() -> None:
    first, second = Shard("1", 1, 10), Shard("2", 1, 20)

    joined = join_parts([{"t": Part("table", (first,))}, {"t": Part("table", (second,)), "m": Part("files", ())}])

    assert joined["t"].shards == (first, second)
    assert joined["t"].rows == 30


def test_files_are_laid_out_by_name(store: Store, tmp_path) -> None:
    part = Part("files", (Shard(store.put(b"{}"), 2, name="config.json"),))
    data = Dataset("m", (dataclasses.replace(version("m", "", "v"), parts={"model": part}),), store)

    folder = data.folder("model", tmp_path / "laid out")

    assert (folder / "config.json").read_bytes() == b"{}"


def test_inputs_made_from_different_versions_of_a_sources_dataset_are_refused(store: Store) -> None:
    mixture = Dataset("mixture", (version("mixture", "", "m", inputs=(("filtered", "web", "f2"),)),), store)
    tokens = Dataset("tokens", (version("tokens", "web", "t", inputs=(("filtered", "web", "f1"),)),), store)

    with pytest.raises(
        MixedVersions, match=r"different versions of filtered\[web\] \(tokens\[web\] on f1; mixture on f2"
    ):
        rests_on("blend", [mixture, tokens])


def test_sources_made_with_different_parameters_are_refused(store: Store) -> None:
    web = dataclasses.replace(version("filtered", "web", "f1"), params={"max_toxicity": 0.1})
    books = dataclasses.replace(version("filtered", "books", "f2"), params={"max_toxicity": 0.9})

    with pytest.raises(MixedVersions, match="the parameters of filtered"):
        rests_on("mixture", [Dataset("filtered", (web, books), store)])


def test_what_is_a_sources_own_may_differ(store: Store) -> None:
    web = dataclasses.replace(version("raw", "web", "r1"), params={"source": {"name": "web"}})
    books = dataclasses.replace(version("raw", "books", "r2"), params={"source": {"name": "books"}})

    assert rests_on("clusters", [Dataset("raw", (web, books), store)]) == {}


def test_a_flipped_bit_in_a_table_is_noticed_where_it_would_change_a_value(store: Store) -> None:
    shard = write_shard(store, "rejects", rejects(*(digest(number) for number in range(500))))
    path = store.path(shard.object)
    whole, table = path.read_bytes(), read_table(store, shard.object)
    noticed = 0
    for place in range(len(whole) // 10, len(whole) // 2, len(whole) // 100):
        path.write_bytes(whole[:place] + bytes([whole[place] ^ 1]) + whole[place + 1 :])
        try:
            assert read_table(store, shard.object).equals(table)  # statistics of a page carry no checksum
        except StoreError as error:
            assert "damaged" in str(error)
            noticed += 1
    assert noticed >= 35  # of 40
