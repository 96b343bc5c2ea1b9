"""What `workspace.yaml` loads: the definitions of the profile that the environment chooses."""

import dagster as dg

from jobs.build import build_definitions
from jobs.environment import chosen_profile


@dg.definitions
def definitions() -> dg.Definitions:
    """Every asset, job and resource of the chosen profile."""
    return build_definitions(chosen_profile())
