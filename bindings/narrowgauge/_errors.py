"""What narrowgauge refuses."""


class Error(ValueError):
    """Something given is wrong: an argument, a file, a key.

    str() is the program's line: "place: key: problem: remedy", empty parts left out.
    """

    def __init__(self, problem: str, remedy: str = "", place: str = "", key: str = "") -> None:
        super().__init__(problem, remedy, place, key)
        self.problem = problem  #: what is wrong, the offending value quoted
        self.remedy = remedy  #: what would be right
        self.place = place  #: a file, maybe with a line
        self.key = key  #: key, tensor or keyword

    def __str__(self) -> str:
        return ": ".join(p for p in (self.place, self.key, self.problem, self.remedy) if p)


class ArgumentError(Error, TypeError):
    """An argument is of a type that it cannot be of: a TypeError, too."""


class Diverged(Error):
    """So many steps in a row were not finite that the run has ended."""

    def __init__(
        self, problem: str, remedy: str = "", place: str = "", key: str = "", step: int = 0
    ) -> None:
        super().__init__(problem, remedy, place, key)
        self.args = (*self.args, step)
        self.step = step  #: the first of them, counted from 1
