"""Example data in the public domain, and the simulation designs of the EBCD paper."""

from ebcd.datasets._packaged import load_elnino, load_pitprops, load_us_employment
from ebcd.datasets._simulation import make_simulation

__all__ = ["load_elnino", "load_pitprops", "load_us_employment", "make_simulation"]
