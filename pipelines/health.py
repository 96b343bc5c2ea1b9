"""Checks: what must hold for a version, told from its own record.

A check reads the counts that the stage put into the version, so it costs nothing, and gives the same answer to the
step that makes the version, to whoever reads it later, and to people in the UI. A check that *stops* keeps the version
from being published; the others only tell.
"""

import math
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass

from pydantic import Field

from pipelines.dataset import Version
from pipelines.profile import Params

ENOUGH_DOCUMENTS = 1000
"""A stage that drops none of fewer documents than this is no sign of anything."""
ENOUGH_DAMAGED = 10
"""Fewer damaged inputs than this are counted, and no reason to warn."""


class CheckParams(Params):
    """What the checks take for normal."""

    strict: bool = Field(
        default=False,
        description="true: any failed check keeps a version from being published, also one that otherwise only warns",
    )
    allow_emptied: bool = Field(
        default=False, description="true: a source that held documents may become empty; else it is not published"
    )
    drift_documents: float = Field(
        default=0.5, gt=0, description="change of the number of documents since the last version that is normal, ratio"
    )
    drift_kept: float = Field(
        default=0.1, gt=0, le=1, description="change of the share of documents kept that is normal, in shares of all"
    )
    damage_share: float = Field(
        default=0.05, ge=0, le=1, description="share of a source's inputs that may be damaged without a warning"
    )


@dataclass(frozen=True)
class Finding:
    """What a check found of one version. documents: how many it looked at, where that matters."""

    passed: bool
    told: str
    documents: int = 0


Look = Callable[[Version, Version | None, CheckParams], Finding | None]
"""From a version and the one before it to a finding; None where the version's record has nothing to look at."""


@dataclass(frozen=True)
class Check:
    """A named check. says: what holds when it passes. stops: whether a version that fails it is not published.

    of_all: the sources of a step are judged together: they fail if each of them does, and if they are large enough.
    """

    name: str
    says: str
    stops: bool
    look: Look
    of_all: bool = False

    def passes(self, findings: Collection[Finding]) -> bool:
        """Whether a step passes, by what was found of each of its sources."""
        if self.of_all and sum(finding.documents for finding in findings) < ENOUGH_DOCUMENTS:
            return True
        return (any if self.of_all else all)(finding.passed for finding in findings)


class Unhealthy(ValueError):
    """A version fails a check that stops it; the message names version, check and what was found."""


def refuse_unhealthy(version: Version, params: CheckParams) -> None:
    """Raise `Unhealthy` if a version that is to be read fails a check that stops."""
    for check in CHECKS:
        finding = check.look(version, None, params)
        if finding and not finding.passed and (check.stops or params.strict) and not check.of_all:
            raise Unhealthy(
                f"{version.name} cannot be read: its version {version.id[:8]} fails the check {check.name} "
                f"({finding.told}); mend the cause and materialize it again"
            )


# -- rows -------------------------------------------------------------------------------------------------------------

_ROWS = {
    "documents": "documents_out",
    "token_documents": "documents_out",
    "decisions": "documents_in",
    "quality": "documents_in",
    "toxicity": "documents_in",
    "toxicity_screen": "documents_in",
    "perplexity": "documents_in",
    "buckets": "documents_in",
    "contamination": "documents_in",
}
"""Parts with a row for each document that went out, or came in."""


def _rows_balance(version: Version, _: Version | None, __: CheckParams) -> Finding | None:
    stats = version.stats
    if not {"documents_in", "documents_out"} <= stats.keys():
        return None
    came_in, went_out, dropped = stats["documents_in"], stats["documents_out"], sum(stats.get("dropped", {}).values())
    wrong = [] if came_in == went_out + dropped else [f"{came_in:,} in, {went_out:,} out, {dropped:,} dropped"]
    expected = {part: stats[count] for part, count in _ROWS.items()} | {"rejects": dropped, "clusters": dropped}
    expected["token_documents"] = stats.get("pieces", went_out)  # a document that is too long is several
    for name, part in version.parts.items():
        if part.rows != expected.get(name, part.rows):
            wrong.append(f"{part.rows:,} rows of {name} instead of {expected[name]:,}")
    if wrong:
        return Finding(False, "; ".join(wrong))
    return Finding(True, f"{came_in:,} in = {went_out:,} out + {dropped:,} dropped")


def _not_emptied(version: Version, before: Version | None, params: CheckParams) -> Finding | None:
    documents = version.stats.get("documents_in")
    if documents is None:
        return None
    earlier = before.stats.get("documents_in", 0) if before else 0
    emptied = earlier > 0 and documents == 0 and not params.allow_emptied
    if emptied:
        return Finding(False, f"no document came in; the last version had {earlier:,}; is a disk not mounted?")
    return Finding(True, f"{documents:,} documents came in")


def _keeps_some(version: Version, _: Version | None, __: CheckParams) -> Finding | None:
    share = _kept_share(version)
    if share is None:
        return None
    if version.stats.get("only_compared"):
        return Finding(True, "the source is only compared with (dedup.against): none of its documents goes on")
    dropped = {reason: count for reason, count in version.stats.get("dropped", {}).items() if count}
    why = "" if share else f" ({', '.join(f'{reason} {count:,}' for reason, count in dropped.items())})"
    return Finding(share > 0, f"{share:.1%} of {version.stats['documents_in']:,} documents kept{why}")


def _drops_some(version: Version, _: Version | None, __: CheckParams) -> Finding | None:
    share = _kept_share(version)
    if share is None:
        return None
    came_in = version.stats["documents_in"]
    return Finding(share < 1, f"{1 - share:.1%} of {came_in:,} documents dropped", came_in)


def _drift(version: Version, before: Version | None, params: CheckParams) -> Finding | None:
    documents = version.stats.get("documents_in")
    if documents is None:
        return None
    if before is None or not before.stats.get("documents_in"):
        return Finding(True, "nothing to compare with: the first version")
    if before.id == version.id:
        return Finding(True, "the same version as before")
    earlier = before.stats["documents_in"]
    change = documents / earlier - 1
    passed, told = abs(change) <= params.drift_documents, [f"documents {change:+.1%} ({earlier:,} to {documents:,})"]
    share, share_before = _kept_share(version), _kept_share(before)
    if share is not None and share_before is not None:
        passed &= abs(share - share_before) <= params.drift_kept
        told.append(f"kept {share_before:.1%}, now {share:.1%}")
    return Finding(passed, ", ".join(told))


def _damage(version: Version, _: Version | None, params: CheckParams) -> Finding | None:
    damaged, came_in = version.stats.get("damaged"), version.stats.get("documents_in")
    if damaged is None or not came_in:
        return None
    told = f"{damaged:,} of {came_in:,} inputs ({damaged / came_in:.1%}) are damaged"
    return Finding(damaged < ENOUGH_DAMAGED or damaged <= params.damage_share * came_in, told, came_in)


def _kept_share(version: Version) -> float | None:
    came_in, went_out = version.stats.get("documents_in"), version.stats.get("documents_out")
    return went_out / came_in if came_in and went_out is not None else None


# -- what the stages promise ------------------------------------------------------------------------------------------


def _no_copies(version: Version, _: Version | None, __: CheckParams) -> Finding | None:
    if "copies_left" not in version.stats:
        return None
    left = version.stats["copies_left"]
    if left is None:
        return Finding(True, "not looked for: dedup.exact is off")
    return Finding(left == 0, f"{left:,} exact copies left over all sources")


def _complies(obligation: str) -> Look:
    """The finding of the compliance audit on one obligation."""

    def look(version: Version, _: Version | None, __: CheckParams) -> Finding | None:
        row = next((row for row in version.stats.get("audit", []) if row["obligation"] == obligation), None)
        if row is None:
            return None
        told = f"required: {row['required']}; found: {row['found']}"
        return Finding(row["met"], told if row["met"] else f"{told}; {row['documents']:,} documents offend")

    return look


def _nothing_beyond(version: Version, _: Version | None, __: CheckParams) -> Finding | None:
    beyond = version.stats.get("kept_beyond")
    if beyond is None:
        return None
    found = {rule: count for rule, count in beyond.items() if count}
    told = ", ".join(f"{count:,} beyond {rule}" for rule, count in found.items())
    return Finding(not found, told or "no kept document lies beyond a threshold")


def _shares(version: Version, _: Version | None, __: CheckParams) -> Finding | None:
    off = version.stats.get("shares_off")
    if off is None:
        return None
    told = "; ".join(f"{source}: {sentence}" for source, sentence in off.items())
    return Finding(not off, told or "every wanted group has tokens, and its share within blend.share_tolerance")


def _loss_finite(version: Version, _: Version | None, __: CheckParams) -> Finding | None:
    losses = _losses(version)
    if losses is None:
        return None
    bad = sum(not math.isfinite(loss) for loss in losses)
    return Finding(
        bad == 0, f"{bad:,} of {len(losses):,} losses are not finite" if bad else f"last loss {losses[-1]:.4g}"
    )


def _loss_falling(version: Version, _: Version | None, __: CheckParams) -> Finding | None:
    losses = _losses(version)
    if losses is None:
        return None
    tenth = max(1, len(losses) // 10)
    first, last = sum(losses[:tenth]) / tenth, sum(losses[-tenth:]) / tenth
    return Finding(last < first, f"mean loss {first:.4g} in the first tenth, {last:.4g} in the last")


def _losses(version: Version) -> Sequence[float] | None:
    """Training losses in the order of the steps."""
    curve = version.stats.get("curve")
    return [point[1] for point in curve] if curve else None


ROWS_BALANCE = Check("rows_balance", "Documents in = documents kept + documents dropped.", True, _rows_balance)
NOT_EMPTIED = Check(
    "not_emptied", "A source that held documents has not become empty (checks.allow_emptied).", True, _not_emptied
)
KEEPS_SOME = Check("keeps_some", "At least one document is kept, if any came in.", False, _keeps_some)
DROPS_SOME = Check(
    "drops_some",
    f"At least one document of all sources is dropped, if {ENOUGH_DOCUMENTS:,} came in or more.",
    False,
    _drops_some,
    of_all=True,
)
DAMAGE = Check(
    "damage",
    f"Few of a source's inputs are damaged: no {ENOUGH_DAMAGED}, or a share within checks.damage_share.",
    False,
    _damage,
)
DRIFT = Check("drift", "Documents and the share kept are about what they were in the last version.", False, _drift)
NO_COPIES = Check(
    "no_exact_duplicate_left", "No two documents with the same text stay, over all sources.", True, _no_copies
)
NOTHING_BEYOND = Check(
    "nothing_beyond_threshold", "No kept document's score lies beyond a threshold.", True, _nothing_beyond
)
LICENSED = Check(
    "licence_permitted", "Every document is under a licence that the profile permits.", True, _complies("licence")
)
CONSENTED = Check("consent_documented", "The source says what its use rests on.", True, _complies("consent"))
WITHIN_RETENTION = Check("within_retention", "No document is past its retention.", True, _complies("retention"))
REGION_PERMITTED = Check(
    "region_permitted", "The source comes from a region that the profile permits.", True, _complies("region")
)
NO_OPT_OUT = Check("no_opt_out", "No document's page forbids training.", True, _complies("opt_out"))
PII_MASKED = Check(
    "personal_data_masked", "No personal data is left of the types that are masked.", True, _complies("personal_data")
)
COMPLIANCE = (LICENSED, CONSENTED, WITHIN_RETENTION, REGION_PERMITTED, NO_OPT_OUT, PII_MASKED)
"""What the compliance audit looks at: a source that fails one goes no further."""

SHARES = Check("shares_within_tolerance", "Every group has its share of the tokens, within tolerance.", False, _shares)
LOSS_FINITE = Check("loss_finite", "Every training loss is a finite number.", True, _loss_finite)
LOSS_FALLING = Check(
    "loss_falling", "The loss is lower at the end of training than at its beginning.", False, _loss_falling
)

CHECKS = (
    ROWS_BALANCE,
    NOT_EMPTIED,
    KEEPS_SOME,
    DROPS_SOME,
    DAMAGE,
    DRIFT,
    NO_COPIES,
    NOTHING_BEYOND,
    *COMPLIANCE,
    SHARES,
    LOSS_FINITE,
    LOSS_FALLING,
)
"""Every check. Each asset declares which of them are shown with it."""
