"""The price table: ours, or one that somebody keeps for another region or a discount of theirs."""

from pathlib import Path

from longhaul.domain.prices import Prices

USUAL = Path(__file__).with_name("prices.json")


def read_prices(file: Path = USUAL) -> Prices:
    """The prices in a file of the form of `prices.json`.

    Raises:
        OSError: it cannot be read.
        pydantic.ValidationError: it has not that form.
    """
    return Prices.model_validate_json(file.read_text())
