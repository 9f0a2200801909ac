"""Which outputs of jobs an input was, as the manifests that were followed say."""

from longhaul.core.places import InputPath, input_of
from longhaul.outputs.manifest import Manifest
from longhaul.runner.inputs import Inputs
from longhaul.runner.io.listing import InputListing
from longhaul.runner.io.staged import StagedInput


def listing_of(*places: str) -> InputListing:
    listing = InputListing(None, "data")  # type: ignore[arg-type]  # nothing is listed
    for n, place in enumerate(places):
        listing.manifests[place] = Manifest(key=f"main#job-{n}", run=1, attempt=1, files=())
    return listing


def writers_of(text: str, listing: InputListing, etag: str = "") -> list[str]:
    inputs: dict[str, InputPath] = {"a": input_of(text)}
    staged = {"a": StagedInput("path", 1, 1, frozenset(), digest="ab12", etag=etag)}
    (read,) = Inputs(inputs, staged, listing).reads()
    return [each.key for each in read.writers]


def test_the_nearest_output_around_an_input_is_its_writer() -> None:
    listing = listing_of("s3://data/out/", "s3://data/out/day=1/", "s3://data/other/")

    assert writers_of("s3://data/out/day=1/", listing) == ["main#job-1"]
    assert writers_of("s3://data/out/day=2/", listing) == ["main#job-0"]
    assert writers_of("s3://data/outer/", listing) == []
    assert writers_of("s3://data/out", listing) == ["main#job-0"]
    assert writers_of("s3://data/raw/a.csv", listing) == []


def test_the_outputs_below_an_input_are_its_writers() -> None:
    listing = listing_of("s3://data/clean/m1/", "s3://data/clean/m2/", "s3://data/cleaner/")

    assert writers_of("s3://data/clean", listing) == ["main#job-0", "main#job-1"]


def test_an_object_that_is_named_by_itself_is_of_no_output() -> None:
    listing = listing_of("s3://data/out/")

    assert writers_of("s3://data/out/_notes.csv", listing, etag='"e"') == []


def test_a_glob_is_of_each_output_that_it_matches_and_of_ten_at_most() -> None:
    listing = listing_of("s3://data/a-1/", "s3://data/a-2/", "s3://data/b-1/")
    assert writers_of("s3://data/a-*/", listing) == ["main#job-0", "main#job-1"]
    assert writers_of("s3://data/a-1/day=*/", listing) == ["main#job-0"]

    many = listing_of(*(f"s3://data/a-{n:02}/" for n in range(20)))
    assert len(writers_of("s3://data/a-*/", many)) == 10


def test_a_join_of_thousands_looks_along_the_path_of_each_input_alone() -> None:
    places = [f"s3://data/out/{n}/" for n in range(5_000)]
    looks = 0

    class Counted(dict[str, Manifest]):
        def __contains__(self, key: object) -> bool:
            nonlocal looks
            looks += 1
            return super().__contains__(key)

        def __iter__(self) -> object:  # type: ignore[override]
            raise AssertionError("all of them for one input")

    listing = listing_of(*places)
    inputs = {f"i{n}": input_of(place) for n, place in enumerate(places)}
    staged = {name: StagedInput("path", 1, 1, frozenset(), "ab12") for name in inputs}
    assert len(Inputs(inputs, {}, listing).parents()) == 5_000
    listing.manifests = Counted(listing.manifests)

    assert all(read.writers for read in Inputs(inputs, staged, listing).reads())
    assert looks == 5_000
