"""Price books: what may stand in one, what a usage costs, and that published energy figures come out."""

import copy
import datetime
import pickle
from decimal import Decimal, localcontext
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from pipelines.prices.book import SMALLEST_USD, PriceBook, PriceError, load_book
from pipelines.usage import Usage

SHIPPED = sorted((Path(__file__).parents[3] / "config" / "prices").glob("*.yaml"))
CLOUD = next(path for path in SHIPPED if path.stem == "cloud-2026")

RATE = {"provider": "AWS", "region": "us-east-1", "purchase": "on demand", "date": "2026-08-11", "source": "a list"}
BOOK: dict[str, Any] = {
    "name": "small",
    "core_hour": {"usd": "0.045", **RATE},
    "gpus": {
        "H100": {"usd": "6.88", "names": ["NVIDIA H100*"], "watts": 700, "watts_source": "datasheet", **RATE},
        "A100": {"usd": "2", "names": ["NVIDIA A100*"], "watts": 400, "watts_source": "datasheet", **RATE},
    },
    "energy": {
        "core_watts": {"value": 3.5, "date": "2026-01-01", "source": "CCF"},
        "gpu_load": {"value": 1, "date": "2026-01-01", "source": "Touvron et al. 2023"},
        "pue": {"value": 1.1, "date": "2026-01-01", "source": "Touvron et al. 2023"},
        "kg_co2e_per_kwh": {"value": 0.385, "date": "2026-01-01", "source": "Touvron et al. 2023"},
    },
}
H100 = "NVIDIA H100 80GB HBM3"
A100 = "NVIDIA A100-SXM4-80GB"


def changed(*keys: str, to: Any) -> dict[str, Any]:
    """The small book with one value changed, or removed (to=...)."""
    book = copy.deepcopy(BOOK)
    inner = book
    for key in keys[:-1]:
        inner = inner[key]
    if to is ...:
        del inner[keys[-1]]
    else:
        inner[keys[-1]] = to
    return book


def written(folder: Path, content: Any) -> Path:
    path = folder / "prices.yaml"
    path.write_text(content if isinstance(content, str) else yaml.safe_dump(content))
    return path


@pytest.fixture
def book() -> PriceBook:
    return PriceBook.model_validate(BOOK)


class TestPricing:
    def test_an_hour_of_two_cores_and_half_an_hour_of_a_gpu(self, book: PriceBook) -> None:
        charge = book.price(Usage(cpu_seconds=7200, gpu_seconds={H100: 1800}))
        assert [(line.item, line.hours, line.usd) for line in charge.lines] == [
            ("cpu", Decimal(2), Decimal("0.09")),
            ("gpu H100", Decimal("0.5"), Decimal("3.44")),
        ]
        assert charge.usd == Decimal("3.53")
        assert (charge.cpu_core_hours, charge.gpu_hours, charge.compute_hours) == (2.0, 0.5, 2.5)

    def test_nothing_costs_nothing(self, book: PriceBook) -> None:
        charge = book.price(Usage())
        assert (charge.usd, charge.energy_kwh, charge.co2e_kg, charge.compute_hours) == (0, 0, 0, 0)

    def test_a_hundredth_of_a_second_is_not_rounded_away(self, book: PriceBook) -> None:
        assert book.price(Usage(cpu_seconds=0.01)).usd == Decimal("0.045") / 360_000

    def test_a_thread_with_a_coarse_decimal_context_pays_the_same(self, book: PriceBook) -> None:
        usage = Usage(cpu_seconds=12345.678901, gpu_seconds={H100: 98765.4321})
        exact = book.price(usage).usd
        with localcontext() as context:
            context.prec = 3
            assert book.price(usage).usd == exact

    def test_wall_time_memory_and_io_are_free(self, book: PriceBook) -> None:
        usage = Usage(wall_seconds=1e6, peak_memory_bytes=1 << 40, read_bytes=1 << 40, written_bytes=1 << 40)
        assert book.price(usage).usd == 0

    @given(
        st.lists(
            st.tuples(st.integers(0, 10**7), st.integers(0, 10**7), st.sampled_from([H100, A100])),
            min_size=1,
            max_size=5,
        )
    )
    def test_a_sum_of_usages_costs_the_sum(self, parts: list[tuple[int, int, str]]) -> None:
        book = PriceBook.model_validate(BOOK)
        usages = [Usage(cpu_seconds=cpu / 128, gpu_seconds={name: gpu / 128}) for cpu, gpu, name in parts]
        total = sum(usages, Usage())
        assert book.price(total).usd == pytest.approx(
            sum(book.price(usage).usd for usage in usages), abs=SMALLEST_USD * 10
        )


class TestEnergy:
    @pytest.mark.parametrize(
        ("gpu_hours", "megawatt_hours", "tonnes"),
        [(82_432, 36, 14), (135_168, 59, 23), (530_432, 233, 90), (1_022_362, 449, 173)],
    )
    def test_llama_at_its_authors_assumptions(
        self, book: PriceBook, gpu_hours: int, megawatt_hours: int, tonnes: int
    ) -> None:
        # Given the A100-hours of LLaMA 7B to 65B (Touvron et al. 2023, table 15), of which no energy was measured
        seconds = {A100: gpu_hours * 3600.0}
        charge = book.price(Usage(gpu_seconds=seconds, gpu_seconds_without_energy=seconds))
        # Then the table's energy and carbon come out: 400 W, PUE 1.1, 0.385 kg/kWh
        assert charge.energy_kwh / 1000 == pytest.approx(megawatt_hours, abs=1)
        assert charge.co2e_kg / 1000 == pytest.approx(tonnes, abs=1)

    def test_a_core_hour_draws_the_watts_of_a_busy_core_times_pue(self, book: PriceBook) -> None:
        charge = book.price(Usage(cpu_seconds=3600))
        assert charge.energy_kwh == pytest.approx(0.0035 * 1.1)
        assert charge.co2e_kg == pytest.approx(0.0035 * 1.1 * 0.385)

    def test_measured_energy_is_taken_and_the_rest_assumed(self, book: PriceBook) -> None:
        # Given two hours of which one was measured: 1.8 MJ, that is 0.5 kWh
        usage = Usage(gpu_seconds={H100: 7200}, gpu_joules={H100: 1.8e6}, gpu_seconds_without_energy={H100: 3600})
        # Then the other hour counts at 700 W
        assert book.price(usage).energy_kwh == pytest.approx((0.5 + 0.7) * 1.1)


class TestDevices:
    @pytest.mark.parametrize("device", [H100, "NVIDIA H100 PCIe", "nvidia h100 nvl", "H100"])
    def test_a_device_is_found_by_key_or_pattern(self, book: PriceBook, device: str) -> None:
        assert book.gpu(device)[0] == "H100"

    def test_a_device_without_a_price_is_an_error_that_names_file_and_key(self, tmp_path: Path) -> None:
        path = written(tmp_path, BOOK)
        with pytest.raises(PriceError, match=r"prices\.yaml: gpus has no price for GPU 'NVIDIA GH200'; add an entry"):
            load_book(path).price(Usage(gpu_seconds={"NVIDIA GH200": 1}))

    def test_two_patterns_that_fit_are_an_error(self) -> None:
        book = PriceBook.model_validate(changed("gpus", "A100", "names", to=["NVIDIA*"]))
        with pytest.raises(PriceError, match=r"gpus\.H100 and gpus\.A100 both have a pattern that fits"):
            book.gpu(H100)


class TestLoading:
    @pytest.mark.parametrize(
        ("keys", "to", "message"),
        [
            (("core_hour", "usd"), 0.045, r"core_hour\.usd: put the amount in quotes.*\"0\.045\""),
            (("core_hour", "usd"), True, r"core_hour\.usd: put the amount in quotes"),
            (("core_hour", "usd"), "-1", r"core_hour\.usd: .*greater than or equal to 0"),
            (("core_hour", "usd"), "NaN", r"core_hour\.usd: .*finite"),
            (("core_hour", "usd"), "Infinity", r"core_hour\.usd: .*finite"),
            (("core_hour", "usd"), "cheap", r"core_hour\.usd: .*decimal"),
            (("core_hour", "usd"), "0", r"core_hour: a price of zero needs its reason in zero_because"),
            (("core_hour", "zero_because"), "ours", r"core_hour: zero_because is given, but the price is 0\.045"),
            (("core_hour", "date"), "yesterday", r"core_hour\.date: "),
            (("core_hour", "source"), ..., r"core_hour\.source: Field required"),
            (("core_hour", "source"), "", r"core_hour\.source: "),
            (("core_hour", "purchase"), "stolen", r"core_hour\.purchase: .*'on demand', 'reserved', 'spot' or 'owned'"),
            (("core_hour",), ..., r"core_hour: Field required"),
            (("cpu",), "0.1", r"cpu: Extra inputs"),
            (("gpus", "H100", "watts"), 0, r"gpus\.H100\.watts: "),
            (("gpus", "H100", "names"), [], r"gpus\.H100\.names: "),
            (("gpus", "H100", "usd"), "0.00", r"gpus\.H100: a price of zero needs"),
            (("energy", "pue", "value"), 0.9, r"energy: pue must be 1 or more"),
            (("energy", "gpu_load", "value"), 70, r"energy: gpu_load must be 0 to 1"),
            (("energy", "core_watts", "value"), 0, r"energy: core_watts must be above 0"),
            (("energy", "kg_co2e_per_kwh", "value"), -0.1, r"energy\.kg_co2e_per_kwh\.value: "),
        ],
    )
    def test_an_error_names_the_file_and_the_key(
        self, tmp_path: Path, keys: tuple[str, ...], to: Any, message: str
    ) -> None:
        with pytest.raises(PriceError, match=rf"price book .*prices\.yaml: {message}"):
            load_book(written(tmp_path, changed(*keys, to=to)))

    @pytest.mark.parametrize(
        ("content", "message"),
        [
            ("", "must be a mapping"),
            ("- 1", "must be a mapping"),
            ("a: [", "can't be read"),
            ("date: 2026-13-45", "can't be read: month must be in 1..12"),
            ("name: one\nname: two", "can't be read: the key 'name' stands twice"),
            ("core_hour: {usd: '1', usd: '2'}", "can't be read: the key 'usd' stands twice"),
        ],
    )
    def test_a_file_that_is_no_book(self, tmp_path: Path, content: str, message: str) -> None:
        with pytest.raises(PriceError, match=message):
            load_book(written(tmp_path, content))

    def test_a_file_that_is_not_there(self, tmp_path: Path) -> None:
        with pytest.raises(PriceError, match=r"there is no price book at .*none\.yaml"):
            load_book(tmp_path / "none.yaml")

    def test_hardware_of_our_own_may_cost_nothing_if_it_says_why(self, tmp_path: Path) -> None:
        content = copy.deepcopy(BOOK)
        content["core_hour"] |= {"usd": "0", "purchase": "owned", "zero_because": "paid for in 2024"}
        book = load_book(written(tmp_path, content))
        assert book.price(Usage(cpu_seconds=3600)).usd == 0
        assert any("paid for in 2024" in line for line in book.lines(book.gpus))

    def test_a_price_stays_exact(self, tmp_path: Path) -> None:
        usd = "0.0446250000000000000000001"
        assert load_book(written(tmp_path, changed("core_hour", "usd", to=usd))).core_hour.usd == Decimal(usd)

    def test_the_digest_follows_the_rates_and_not_the_layout(self, tmp_path: Path) -> None:
        digest = load_book(written(tmp_path, BOOK)).digest
        assert load_book(written(tmp_path, "# a comment\n" + yaml.safe_dump(BOOK, sort_keys=False))).digest == digest
        assert load_book(written(tmp_path, changed("core_hour", "usd", to="0.046"))).digest != digest

    def test_a_book_goes_to_other_processes(self, tmp_path: Path) -> None:
        book = load_book(written(tmp_path, BOOK))
        twin = pickle.loads(pickle.dumps(book))
        assert twin == book
        with pytest.raises(PriceError, match=r"prices\.yaml"):
            twin.gpu("NVIDIA GH200")


class TestShippedBooks:
    @pytest.mark.parametrize("path", SHIPPED, ids=lambda path: path.name)
    def test_every_entry_is_dated_sourced_and_printed(self, path: Path) -> None:
        book = load_book(path)
        entries = [book.core_hour, *book.gpus.values()]
        assert all(entry.date <= datetime.date.today() for entry in entries)
        printed = "\n".join(book.lines(book.gpus))
        for entry in entries:
            assert f"{entry.usd} USD per hour" in printed
            assert entry.source in printed

    def test_the_core_hour_is_half_of_c7i_large(self) -> None:
        assert load_book(CLOUD).core_hour.usd == Decimal("0.08925") / 2

    @pytest.mark.parametrize(
        ("device", "instance_usd", "gpus"),
        [
            ("NVIDIA B200", "113.9328", 8),
            ("NVIDIA H200", "63.296", 8),
            ("NVIDIA H100 80GB HBM3", "55.04", 8),
            ("NVIDIA A100-SXM4-80GB", "27.44705", 8),
            ("NVIDIA A100 80GB PCIe", "27.44705", 8),
            ("NVIDIA A100-SXM4-40GB", "21.957642", 8),
            ("NVIDIA L40S", "1.861", 1),
            ("NVIDIA A10G", "1.006", 1),
            ("NVIDIA L4", "0.8048", 1),
            ("Tesla T4", "0.526", 1),
        ],
    )
    def test_a_gpu_hour_is_its_share_of_the_instance(self, device: str, instance_usd: str, gpus: int) -> None:
        assert load_book(CLOUD).gpu(device)[1].usd == Decimal(instance_usd) / gpus

    @pytest.mark.parametrize("device", ["NVIDIA GH200 480GB", "NVIDIA L40", "NVIDIA A10", "NVIDIA T4G", "NVIDIA T400"])
    def test_a_name_that_only_looks_alike_has_no_price(self, device: str) -> None:
        with pytest.raises(PriceError, match="no price"):
            load_book(CLOUD).gpu(device)
