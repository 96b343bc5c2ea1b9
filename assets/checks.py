"""Asset checks: what a step's versions were found to be, before any of them was published.

What is looked at stands in `pipelines/health.py`. Dagster takes one result for a check and a step, so a result holds
the findings of all sources of the step.
"""

from collections.abc import Sequence

import dagster as dg

from assets import audit
from assets.values import table
from pipelines.dataset import Version
from pipelines.health import Check, CheckParams, Finding, Unhealthy

STOPS, WARNS = "A version that fails is not published.", "A failure warns; with checks.strict it stops, too."


def check_specs(asset: str, checks: Sequence[Check]) -> list[dg.AssetCheckSpec]:
    """The checks of an asset as Dagster lists them."""
    return [
        dg.AssetCheckSpec(
            check.name,
            asset=asset,
            description=f"{check.says} {STOPS if check.stops else WARNS}",
        )
        for check in checks
    ] + [dg.AssetCheckSpec(audit.CHECK, asset=asset, description=audit.SAYS)]


class StepChecks:
    """The findings of one step, source by source."""

    def __init__(self, asset: str, checks: Sequence[Check], params: CheckParams) -> None:
        self._asset, self._params = asset, params
        self._findings: dict[Check, dict[str, Finding]] = {check: {} for check in checks}

    def look_at(self, version: Version, before: Version | None) -> None:
        """Check a version. Raises `Unhealthy`, once all checks have looked, where one fails that stops it.

        before: the current version of the same partition, if there is one.
        """
        failed = []
        for check, findings in self._findings.items():
            finding = check.look(version, before, self._params) or Finding(True, "nothing to look at")
            findings[version.partition] = finding
            if not finding.passed and self._stops(check) and not check.of_all:
                failed.append(f"{check.name}: {finding.told}")
        if failed:
            raise Unhealthy(f"{version.name} is not published, it fails {'; '.join(failed)}")

    def look_at_all(self) -> None:
        """Check the sources of the step together. Raises `Unhealthy` as `look_at` does."""
        for check, findings in self._findings.items():
            if check.of_all and self._stops(check) and not check.passes(findings.values()):
                raise Unhealthy(f"{self._asset} is not published, it fails {check.name}: {_told(findings)}")

    def results(self) -> list[dg.AssetCheckResult]:
        """One result for every check that has looked at something."""
        return [self._result(check, findings) for check, findings in self._findings.items() if findings]

    def _result(self, check: Check, findings: dict[str, Finding]) -> dg.AssetCheckResult:
        passed = check.passes(findings.values())
        said = next(iter(findings.values())).told if len(findings) == 1 else check.says
        rows = [{"source": s, "passed": finding.passed, "found": finding.told} for s, finding in findings.items()]
        return dg.AssetCheckResult(
            passed=passed,
            asset_key=self._asset,
            check_name=check.name,
            severity=dg.AssetCheckSeverity.ERROR if self._stops(check) else dg.AssetCheckSeverity.WARN,
            description=(said if passed else _told(findings))[:1000],
            metadata={} if list(findings) == [""] else {"sources": table(rows)},
        )

    def _stops(self, check: Check) -> bool:
        return check.stops or self._params.strict


def _told(findings: dict[str, Finding]) -> str:
    """What was found where it is not as it should be."""
    failed = {source: finding.told for source, finding in findings.items() if not finding.passed}
    return "; ".join(f"{source}: {told}" if source else told for source, told in failed.items())
