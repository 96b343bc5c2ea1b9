"""The price book: rates with provider, region, purchase option, date and source, read from one YAML file.

Turning usage into dollars and carbon is here too; quantities come from `pipelines/usage.py` or from a plan, and who
bears a charge is `pipelines/costs/`. Money is `Decimal`: never negative, never NaN, never zero without a reason.
"""

import datetime
import hashlib
import json
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from decimal import Context, Decimal, localcontext
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, Literal, Protocol

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator

SECONDS_PER_HOUR = 3600
JOULES_PER_KWH = 3_600_000
MONEY = Context(prec=34)
SMALLEST_USD = Decimal("1e-12")
"""Amounts are whole multiples of this, so that their sums are exact."""
"""34 significant digits (IEEE 754 decimal128): sums of many small charges stay exact far beyond a cent."""


class PriceError(ValueError):
    """A price is missing or wrong; the message names the file and the key."""


class Priceable(Protocol):
    """Quantities that can be priced, measured (`pipelines.usage.Usage`) or planned."""

    @property
    def cpu_seconds(self) -> float:
        """Core-seconds used."""

    @property
    def gpu_seconds(self) -> Mapping[str, float]:
        """GPU-seconds held, by device name."""

    @property
    def gpu_joules(self) -> Mapping[str, float]:
        """Measured energy, by device name."""

    @property
    def gpu_seconds_without_energy(self) -> Mapping[str, float]:
        """The part of the GPU-seconds whose energy was not measured, by device name."""

    @property
    def bought(self) -> Mapping[str, float]:
        """What people and paid services gave, by item."""

    @property
    def bought_usd(self) -> Mapping[str, Decimal]:
        """What was paid for it, by item."""


class _Entry(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


class Rate(_Entry):
    """A price for an hour, and where it comes from."""

    usd: Decimal = Field(ge=0, description="USD per hour, in quotes so that it stays exact")
    provider: str = Field(min_length=1, description="who sells it")
    region: str = Field(min_length=1, description="where")
    purchase: Literal["on demand", "reserved", "spot", "owned"] = Field(description="purchase option")
    date: datetime.date = Field(description="day on which the price was true")
    source: str = Field(min_length=1, description="URL or document")
    note: str = Field("", description="how the price was derived")
    zero_because: str = Field("", description="why a price of zero is meant")

    @field_validator("usd", mode="before")
    @classmethod
    def _exact(cls, usd: Any) -> Any:
        if isinstance(usd, float | bool):
            raise ValueError(f'put the amount in quotes, so that it stays exact: "{usd}"')
        return usd

    @model_validator(mode="after")
    def _zero_on_purpose(self) -> "Rate":
        if self.usd == 0 and not self.zero_because:
            raise ValueError("a price of zero needs its reason in zero_because, for example: our own machine, paid for")
        if self.usd > 0 and self.zero_because:
            raise ValueError(f"zero_because is given, but the price is {self.usd}")
        return self

    def __str__(self) -> str:
        origin = f"{self.provider} {self.region}, {self.purchase}, {self.date}, {self.source}"
        return f"{self.usd} USD per hour ({origin}{'; ' + self.zero_because if self.zero_because else ''})"


class GpuRate(Rate):
    """The price of holding one GPU for an hour, and the power it draws."""

    names: list[str] = Field(min_length=1, description="patterns of device names as NVML gives them: * and ?")
    watts: float = Field(gt=0, le=10_000, description="maximum power of the board, watts")
    watts_source: str = Field(min_length=1, description="URL or document")

    def is_for(self, device: str) -> bool:
        """Whether a device name is meant; case doesn't matter."""
        return any(fnmatchcase(device.lower(), name.lower()) for name in self.names)


class Figure(_Entry):
    """A number that energy and carbon are computed with, and where it comes from."""

    value: float = Field(ge=0)
    date: datetime.date = Field(description="day as of which the figure holds")
    source: str = Field(min_length=1)
    note: str = ""


class Energy(_Entry):
    """What turns seconds into kWh and kWh into CO2e."""

    core_watts: Figure = Field(description="power of one busy core (vCPU), watts")
    gpu_load: Figure = Field(description="share of a GPU's maximum power assumed where energy was not measured, 0 to 1")
    pue: Figure = Field(description="power usage effectiveness: grid energy / IT energy, 1 or more")
    kg_co2e_per_kwh: Figure = Field(description="carbon intensity of the grid")

    @model_validator(mode="after")
    def _ranges(self) -> "Energy":
        if self.core_watts.value == 0:
            raise ValueError("core_watts must be above 0")
        if self.gpu_load.value > 1:
            raise ValueError(f"gpu_load must be 0 to 1, and is {self.gpu_load.value}")
        if self.pue.value < 1:
            raise ValueError(f"pue must be 1 or more, and is {self.pue.value}")
        return self


@dataclass(frozen=True)
class ChargeLine:
    """One line of a charge. item: 'cpu', or 'gpu' and the device's key in the book. hours: core- or GPU-hours."""

    item: str
    hours: Decimal
    usd_per_hour: Decimal
    usd: Decimal


@dataclass(frozen=True)
class Purchase:
    """What people or a paid service gave, in the item's own unit, and what was paid for it."""

    item: str
    units: float
    usd: Decimal


@dataclass(frozen=True)
class Charge:
    """What a usage costs. lines: of compute. bought: of people and paid services. energy_kwh: from the grid. co2e_kg:
    of that energy, location-based."""

    lines: tuple[ChargeLine, ...]
    energy_kwh: float
    co2e_kg: float
    bought: tuple[Purchase, ...] = ()

    @property
    def usd(self) -> Decimal:
        """Compute and what was bought."""
        with localcontext(MONEY):
            return sum((line.usd for line in self.lines), self.bought_usd)

    @property
    def bought_usd(self) -> Decimal:
        """What was bought of people and paid services."""
        with localcontext(MONEY):
            return sum((purchase.usd for purchase in self.bought), Decimal(0))

    @property
    def cpu_core_hours(self) -> float:
        """Core-hours used."""
        return float(sum(line.hours for line in self.lines if line.item == "cpu"))

    @property
    def gpu_hours(self) -> float:
        """GPU-hours held."""
        return float(sum(line.hours for line in self.lines if line.item != "cpu"))

    @property
    def compute_hours(self) -> float:
        """(Core-seconds used + GPU-seconds held) / 3600."""
        return self.cpu_core_hours + self.gpu_hours


class PriceBook(_Entry):
    """All rates of one file. `load_book` makes one."""

    name: str = Field(min_length=1, description="what reports call the book")
    core_hour: Rate = Field(description="price of one core (vCPU) used for one hour")
    gpus: dict[str, GpuRate] = Field(default_factory=dict, description="price of a GPU held for one hour, by key")
    energy: Energy
    _path: str = ""

    @property
    def digest(self) -> str:
        """SHA-256 (64 hex digits) of what the book says; comments and layout don't matter."""
        content = self.model_dump(mode="json")
        return hashlib.sha256(json.dumps(content, sort_keys=True, separators=(",", ":")).encode()).hexdigest()

    def gpu(self, device: str) -> tuple[str, GpuRate]:
        """Key and rate of a device, given by its key or its NVML name. Raises `PriceError` unless exactly one fits."""
        if device in self.gpus:
            return device, self.gpus[device]
        fitting = [(key, rate) for key, rate in self.gpus.items() if rate.is_for(device)]
        if len(fitting) == 1:
            return fitting[0]
        where = self._path or f"price book {self.name}"
        if fitting:
            keys = " and ".join(f"gpus.{key}" for key, _ in fitting)
            raise PriceError(f"{where}: {keys} both have a pattern that fits GPU {device!r}; make their names narrower")
        raise PriceError(
            f"{where}: gpus has no price for GPU {device!r}; add an entry with names: [{json.dumps(device)}]"
        )

    def price(self, usage: Priceable) -> Charge:
        """What a usage costs at these rates.

        usd = core-hours used x core rate + GPU-hours held x GPU rate + what was bought, as paid. Grid energy = IT
        energy x PUE, and kgCO2e = kWh x grid intensity (the convention of Touvron et al. 2023, section 6), where IT
        energy = core-seconds used x watts of a busy core + measured GPU joules + unmeasured GPU-seconds x maximum watts
        x assumed load.
        Raises `PriceError` for a GPU without a price.
        """
        joules = usage.cpu_seconds * self.energy.core_watts.value
        lines = [_line("cpu", usage.cpu_seconds, self.core_hour)]
        for device, seconds in sorted(usage.gpu_seconds.items()):
            key, rate = self.gpu(device)
            lines.append(_line(f"gpu {key}", seconds, rate))
            joules += usage.gpu_joules.get(device, 0.0)
            joules += usage.gpu_seconds_without_energy.get(device, 0.0) * rate.watts * self.energy.gpu_load.value
        energy_kwh = joules / JOULES_PER_KWH * self.energy.pue.value
        bought = tuple(
            Purchase(item, units, usage.bought_usd.get(item, Decimal(0)).quantize(SMALLEST_USD))
            for item, units in sorted(usage.bought.items())
        )
        return Charge(tuple(lines), energy_kwh, energy_kwh * self.energy.kg_co2e_per_kwh.value, bought)

    @property
    def label(self) -> str:
        """Name and content: `name@` and 12 digits of the digest, so that an edited book is noticed."""
        return f"{self.name}@{self.digest[:12]}"

    def lines(self, gpus: Collection[str]) -> list[str]:
        """The rates in words, with sources, to stand beside the dollars. gpus: keys of those that were charged."""
        energy = self.energy
        return [
            f"core-hour: {self.core_hour}",
            *(f"GPU-hour {key}: {rate}" for key, rate in self.gpus.items() if key in gpus),
            f"energy: {energy.core_watts.value:g} W per busy core ({energy.core_watts.source}); "
            f"GPUs as measured, else {energy.gpu_load.value:.0%} of maximum power ({energy.gpu_load.source})",
            f"grid: PUE {energy.pue.value:g} ({energy.pue.source}); {energy.kg_co2e_per_kwh.value:g} kg CO2e per kWh "
            f"({energy.kg_co2e_per_kwh.source})",
        ]


def load_book(path: Path | str) -> PriceBook:
    """The price book of a YAML file. Raises `PriceError`, which names the file and the keys, if it isn't one."""
    try:
        content = yaml.load(Path(path).read_text(encoding="utf-8"), Loader=_OneOfEach)
    except FileNotFoundError:
        raise PriceError(f"there is no price book at {path}") from None
    except (OSError, ValueError, yaml.YAMLError) as error:  # a date like 2026-13-45 is a ValueError
        raise PriceError(f"price book {path} can't be read: {' '.join(str(error).split())}") from None
    if not isinstance(content, dict):
        raise PriceError(f"price book {path} must be a mapping with name, core_hour, gpus and energy")
    try:
        book = PriceBook.model_validate(content)
    except ValidationError as error:
        problems = (
            f"{'.'.join(map(str, problem['loc']))}: {problem['msg'].removeprefix('Value error, ')}"
            for problem in error.errors()
        )
        raise PriceError(f"price book {path}: {'; '.join(problems)}") from None
    book._path = str(path)
    return book


class _OneOfEach(yaml.SafeLoader):
    """YAML without the trap that of two prices under one key the first is silently dropped."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        """A mapping whose keys are all different."""
        keys = [self.construct_object(key, deep=True) for key, _ in node.value]
        for key in keys:
            if keys.count(key) > 1:
                raise yaml.constructor.ConstructorError(None, None, f"the key {key!r} stands twice", node.start_mark)
        return super().construct_mapping(node, deep)


def _line(item: str, seconds: float, rate: Rate) -> ChargeLine:
    with localcontext(MONEY):
        hours = Decimal(repr(float(seconds))) / SECONDS_PER_HOUR
        return ChargeLine(item, hours, rate.usd, (hours * rate.usd).quantize(SMALLEST_USD))
