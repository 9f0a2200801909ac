"""A definition is parsed once.

AWS: the cost of starting an execution does not depend on the size of its machine.

Stock moto: parses the definition at each StartExecution, in pure Python. For a large machine that
takes a good part of a second, so a burst of executions is slow.

A parsed program can be shared: it holds no state of an execution, except the key under which
retriers count in the execution's heap. Stock moto makes that key on first use, and two threads
could make two. Here the key is the component's identity. Machines with a Map state are parsed each
time, because a Map's components hold state.
"""
# ruff: noqa: ANN401 - moto's insides, which have no types worth naming

from functools import lru_cache
from typing import Any

from moto.stepfunctions.parser.asl.component.eval_component import EvalComponent
from moto.stepfunctions.parser.asl.parse.asl_parser import AmazonStateLanguageParser

from longhaul.local.moto_repairs.patching import Patches


def apply(patches: Patches) -> None:
    stock_parse = AmazonStateLanguageParser.parse
    parse_once = lru_cache(maxsize=64)(stock_parse)

    def parse(definition: str) -> Any:
        return stock_parse(definition) if '"Map"' in definition else parse_once(definition)

    patches.replace(AmazonStateLanguageParser, "parse", staticmethod(parse))
    patches.replace(EvalComponent, "heap_key", property(lambda component: str(id(component))))
