"""A definition is parsed once.

AWS: starting an execution costs the same whatever the machine's size.

Stock moto: the grammar-driven parser runs at each StartExecution (a good part of a second for a machine of some size, in pure Python), so that a burst of
executions crawls. The parsed program holds no state of an execution, except the key under which retriers count in the execution's own heap: made on first
use, it would differ between two threads that ask at once, so here it is the component's identity.

Machines with a Map state are left alone: its components do hold state.
"""
# ruff: noqa: ANN401 - moto's insides, which have no types worth naming

from functools import lru_cache
from typing import Any

from moto.stepfunctions.parser.asl.component.eval_component import EvalComponent
from moto.stepfunctions.parser.asl.parse.asl_parser import AmazonStateLanguageParser

from local.moto_repairs.patching import Patches


def apply(patches: Patches) -> None:
    stock_parse = AmazonStateLanguageParser.parse
    parse_once = lru_cache(maxsize=64)(stock_parse)

    def parse(definition: str) -> Any:
        return stock_parse(definition) if '"Map"' in definition else parse_once(definition)

    patches.replace(AmazonStateLanguageParser, "parse", staticmethod(parse))
    patches.replace(EvalComponent, "heap_key", property(lambda component: str(id(component))))
