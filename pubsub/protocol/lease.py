"""Who has been heard of lately."""


class Leases:
    """Remembers when each holder was last heard of, and tells who has been silent for too long. No clock of its own.

    >>> leases = Leases(duration_s=60.0)
    >>> leases.grant("a", now_s=0.0)
    >>> leases.grant("b", now_s=50.0)
    >>> leases.expire(now_s=70.0), leases.expire(now_s=70.0)
    (['a'], [])
    """

    def __init__(self, duration_s: float) -> None:
        self.duration_s = duration_s
        self._renewed_s: dict[str, float] = {}

    def grant(self, holder: str, now_s: float) -> None:
        """Take on a holder. Complexity: O(1)."""
        self._renewed_s.pop(holder, None)  # so that the order of the dict is the order of renewal
        self._renewed_s[holder] = now_s

    def renew(self, holder: str, now_s: float) -> None:
        """Note that a holder was heard of; does nothing once its lease has run out. Complexity: O(1)."""
        if holder in self._renewed_s:
            self.grant(holder, now_s)

    def release(self, holder: str) -> None:
        """Forget a holder."""
        self._renewed_s.pop(holder, None)

    def expire(self, now_s: float) -> list[str]:
        """Forget and return the holders whose lease has run out. Complexity: O(1 + those)."""
        expired = []
        for holder, renewed_s in self._renewed_s.items():
            if renewed_s + self.duration_s > now_s:
                break
            expired.append(holder)
        for holder in expired:
            del self._renewed_s[holder]
        return expired
