"""Work that waits for the disk, in steps, so that it need not be waited for where requests are.

A generator of steps runs where its owner runs, and yields what takes long: syncs and removals,
which touch nothing that the owner has. Each is to be done, by any thread, before the generator
goes on; an OSError of it is thrown into the generator. In between the owner may do as it likes: a
generator looks, whenever it goes on, whether it was overtaken.
"""

from collections.abc import Callable, Generator

Steps = Generator[Callable[[], object], None, None]


def carry_out(steps: Generator[Callable[[], object], None, object]) -> None:
    """Does all of it at once, here."""
    try:
        work = next(steps)
        while True:
            try:
                work()
            except OSError as error:
                work = steps.throw(error)
            else:
                work = next(steps)
    except StopIteration:
        return
    finally:
        steps.close()


Later = Callable[[Steps], object]
"""Has steps carried out, in this order, maybe after it returns; what goes wrong ends the broker."""
