"""The suites are no test files themselves, so pytest has to be asked to explain their assertions."""

import pytest

pytest.register_assert_rewrite(
    "tests.links.conformance", "tests.links.peer_conformance", "tests.links.receiver_conformance"
)
