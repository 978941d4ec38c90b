"""The frames of a page, as Chromium traces them: what each costs the main thread, and how long it takes."""

import json
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

import psutil
from playwright.sync_api import Browser, Page

_CATEGORIES = ["__metadata", "toplevel", "devtools.timeline", "disabled-by-default-devtools.timeline"]
_OBSERVE = """
window.frames_ms = [];
window.long_ms = [];
{
  let before = performance.now();
  const note = (now) => { window.frames_ms.push(now - before); before = now; requestAnimationFrame(note); };
  requestAnimationFrame(note);
}
new PerformanceObserver((list) => { for (const entry of list.getEntries()) window.long_ms.push(entry.duration); })
  .observe({ type: "long-animation-frame" });
"""


@dataclass
class Frames:
    """What was measured.

    Attributes:
        busy_ms: for each frame, how long the main thread of the page ran for it. Other programs do not change that.
        tasks_ms: the same for each task, of which a frame has several.
        passed_ms: the time from each frame to the next, which they do change.
        long_ms: the durations of what the browser calls long animation frames: those over 50 ms.
        heap: the JavaScript heap in use, in bytes, at each sample; nobody has asked for a garbage collection.
        private: the memory that the page's process alone has, in bytes, at each sample.
    """

    busy_ms: list[float] = field(default_factory=list)
    tasks_ms: list[float] = field(default_factory=list)
    passed_ms: list[float] = field(default_factory=list)
    long_ms: list[float] = field(default_factory=list)
    heap: list[int] = field(default_factory=list)
    private: list[int] = field(default_factory=list)

    def __str__(self) -> str:
        told = []
        if self.busy_ms:
            told.append(
                f"main thread for each of {_most(self.busy_ms)}; for a task at most {max(self.tasks_ms):.0f} ms"
            )
        if self.passed_ms:
            told.append(f"from frame to frame, {_most(self.passed_ms)}")
            told.append(f"{len(self.long_ms)} long animation frames, up to {max(self.long_ms, default=0):.0f} ms")
        if self.private:
            told.append(f"heap up to {max(self.heap) >> 20} MB, process up to {max(self.private) >> 20} MB")
        return "; ".join(told)

    def sample_memory(self, page: Page) -> None:
        """Note the memory that the page has now."""
        session = page.context.new_cdp_session(page)
        session.send("Performance.enable")
        metrics = session.send("Performance.getMetrics")["metrics"]
        self.heap.append(int(next(one["value"] for one in metrics if one["name"] == "JSHeapUsedSize")))
        session.detach()
        self.private.append(private_bytes(psutil.Process()))


def _most(times_ms: list[float]) -> str:
    ordered = sorted(times_ms)
    within = ordered[len(ordered) * 99 // 100]
    return f"{len(ordered)} frames: at most {ordered[-1]:.0f} ms, 99 % within {within:.0f} ms"


@contextmanager
def timed(page: Page) -> Iterator[Frames]:
    """Measure when frames come, and have the memory sampled, until the end of the block; only then is it known."""
    found = Frames()
    page.evaluate(_OBSERVE)
    yield found
    found.passed_ms = page.evaluate("window.frames_ms")
    found.long_ms = page.evaluate("window.long_ms")


@contextmanager
def traced(browser: Browser, page: Page) -> Iterator[Frames]:
    """Measure what frames cost until the end of the block. The trace takes memory, so none of that is sampled."""
    found = Frames()
    browser.start_tracing(page=page, categories=_CATEGORIES)
    yield found
    found.busy_ms, found.tasks_ms = _busy_ms(json.loads(browser.stop_tracing())["traceEvents"])


def _busy_ms(events: list[dict[str, Any]]) -> tuple[list[float], list[float]]:
    """Return the processor time of the main thread from each frame to the next, and for each task.

    It is the main thread of the page with the most frames.
    """
    mains = {
        (event["pid"], event["tid"])
        for event in events
        if event["name"] == "thread_name" and event["args"]["name"] == "CrRendererMain"
    }
    begun: dict[tuple[int, int], list[float]] = {main: [] for main in mains}
    for event in events:
        if event["name"] == "BeginCommitCompositorFrame" and (event["pid"], event["tid"]) in mains:
            begun[event["pid"], event["tid"]].append(event["ts"])
    main = max(begun, key=lambda one: len(begun[one]))
    tasks = [
        (event["ts"], event["ts"] + event["dur"], event["tdur"])
        for event in events
        if event["name"] == "RunTask" and (event["pid"], event["tid"]) == main and "tdur" in event
    ]
    bounds = sorted(begun[main])
    busy = [0.0] * (len(bounds) + 1)
    place = 0
    for _, ended, took in sorted(tasks):
        while place < len(bounds) and bounds[place] <= ended:
            place += 1
        busy[place] += took / 1000
    return busy, [took / 1000 for _, _, took in tasks]


def private_bytes(of: psutil.Process) -> int:
    """Return the memory that the largest page of a browser has for itself, in bytes."""
    found = []
    for process in of.children(recursive=True):
        with suppress(psutil.NoSuchProcess):  # a browser ends some of its processes as it starts
            if "--type=renderer" in process.cmdline():
                found.append(int(process.memory_full_info().uss))
    return max(found)
