"""A socket to read from, for tests of what is read."""

from collections.abc import Sequence


class Cut:
    """What a socket gives that has some bytes, cut in pieces; a piece of 0 is a moment when nothing is there yet."""

    def __init__(self, content: bytes, pieces: Sequence[int]) -> None:
        self._content = memoryview(content)
        self._pieces = [piece for _ in range(3) for piece in pieces]
        self.is_over = False

    def recv_into(self, room: memoryview) -> int:
        assert len(room), "nobody reads into nothing"
        piece = self._pieces.pop(0) if self._pieces else len(room)
        if not piece:
            raise BlockingIOError
        size = min(piece, len(room), len(self._content))
        self.is_over = not size
        room[:size], self._content = self._content[:size], self._content[size:]
        return size
