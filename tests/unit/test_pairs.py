from benchmarks.pairs import ratios, take_turns


def test_rounds_alternate_the_order_and_the_first_is_dropped() -> None:
    order = []
    seconds = iter(range(1, 100))

    def side(name: str) -> float:
        order.append(name)
        return float(next(seconds))

    mine, theirs = take_turns(lambda: side("ours"), {"plain": lambda: side("plain")}, runs=2)

    assert order == ["ours", "plain", "plain", "ours", "ours", "plain"]
    assert (mine, theirs) == ([4.0, 5.0], {"plain": [3.0, 6.0]})


def test_ratio_is_taken_within_each_round() -> None:
    found = ratios([1.0, 4.0, 3.0], [2.0, 4.0, 12.0])
    assert (found["ratio_median"], found["ratio_min"], found["ratio_max"], found["runs"]) == (
        0.5,
        0.25,
        1.0,
        3,
    )
