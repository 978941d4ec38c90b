"""The checksum of stored bytes: CRC-32C, as in iSCSI (RFC 3720), with the processor's own instruction."""

from google_crc32c import extend


def crc32c(data: bytes | bytearray | memoryview, before: int = 0) -> int:
    """Return the CRC-32C of some bytes; ``before`` is the CRC-32C of the bytes before them.

    >>> hex(crc32c(b"123456789"))
    '0xe3069283'
    >>> crc32c(memoryview(b"56789"), crc32c(bytearray(b"1234"))) == crc32c(b"123456789")
    True
    >>> crc32c(memoryview(b""), 7)
    7
    """
    if type(data) is bytes:
        return int(extend(before, data))
    # The library accepts bytes and NumPy arrays; only an array can be a view of another buffer.
    import numpy as np

    view = memoryview(data)
    return int(extend(before, np.frombuffer(view, np.uint8))) if view.nbytes else before
