"""The trace of a run as nested spans: run, episode, step; evaluations, checkpoints, and components' own spans."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

from opentelemetry import trace
from opentelemetry.context import Context, get_current
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter
from opentelemetry.sdk.trace.id_generator import IdGenerator
from opentelemetry.sdk.trace.sampling import ALWAYS_ON, ParentBased
from opentelemetry.trace import NonRecordingSpan, Span, SpanContext, Status, StatusCode, TraceFlags

from alphaswarm_rl.core.tracing import Adder
from alphaswarm_rl.core.types import JsonMapping
from alphaswarm_rl.settings import TracesSettings
from alphaswarm_rl.telemetry.exporters import exporter_of, plain
from alphaswarm_rl.telemetry.routes import Route

#: Spans that wait for their export: many environments end many episodes at once.
_QUEUE = 16_384
#: Spans of our own that come seldom: they are kept whatever the share.
_ALWAYS = ("checkpoint", "evaluate")


class Share:
    """Keeps a share of what comes, evenly, and draws nothing for it.

    Args:
        rate: The share, from 0 to 1.
    """

    def __init__(self, rate: float) -> None:
        self._rate = rate
        self._seen = 0

    def takes(self) -> bool:
        """Whether the next one is kept."""
        before, self._seen = self._seen, self._seen + 1
        return int(self._seen * self._rate) > int(before * self._rate)


class Ids(IdGenerator):
    """Ids of spans from the system's entropy: OpenTelemetry's come from the generator that runs are seeded with.

    Args:
        trace_id: The id of every trace: all that happens in a run is one.
    """

    def __init__(self, trace_id: int) -> None:
        self._trace_id = trace_id

    def generate_span_id(self) -> int:
        """A new id."""
        return int.from_bytes(os.urandom(8), "big") or 1

    def generate_trace_id(self) -> int:
        """The trace id of the run."""
        return self._trace_id

    def is_trace_id_random(self) -> bool:
        """True: run ids are random."""
        return True


class Traces:
    """The spans of one run, on their way.

    Args:
        route: Where they go.
        resource: Who they are of.
        settings: Which kinds are wanted, and what share.
        trace_id: The trace; where the caller has a span of its own open, the run is part of that one's instead.
        attributes: What the run's span carries.
    """

    def __init__(
        self, route: Route, resource: Resource, settings: TracesSettings, trace_id: int, attributes: JsonMapping
    ) -> None:
        self.settings = settings
        self.exporter: SpanExporter = exporter_of(route)
        self._provider = TracerProvider(
            ParentBased(ALWAYS_ON), resource, shutdown_on_exit=False, id_generator=Ids(trace_id)
        )
        queue = None if os.environ.get("OTEL_BSP_MAX_QUEUE_SIZE") else _QUEUE
        self._provider.add_span_processor(BatchSpanProcessor(self.exporter, max_queue_size=queue))
        self._tracer = self._provider.get_tracer("alphaswarm_rl")
        self._episodes = Share(settings.sample_rate)
        self._components = Share(settings.sample_rate)
        self._outside = trace.get_current_span().get_span_context().span_id
        self._run = self._tracer.start_span("run", attributes=plain(attributes))
        self._below_run = trace.set_span_in_context(self._run)

    @property
    def trace_id(self) -> str:
        """The trace, as it is written."""
        return trace.format_trace_id(self._run.get_span_context().trace_id)

    def context(self) -> Context:
        """Where a thread is in the trace: below its open span, else below the run."""
        current = get_current()
        here, run = trace.get_current_span(current).get_span_context(), self._run.get_span_context()
        inside = here.trace_id == run.trace_id and here.span_id != self._outside
        return current if inside else self._below_run

    @contextmanager
    def span(self, name: str, attributes: JsonMapping) -> Iterator[Adder]:
        """A span around a block of work.

        Those directly below the run are kept by the sample rate, but for evaluations and checkpoints; the others go
        with the one that they are in.
        """
        context = self.context()
        if name == "evaluate" and not self.settings.trace_evals:
            yield None
        elif context is self._below_run and name not in _ALWAYS and not self._components.takes():
            with trace.use_span(self._unseen()):
                yield None
        else:
            with self._tracer.start_as_current_span(name, context=context, attributes=plain(attributes)) as span:
                yield lambda more: span.set_attributes(plain(more))

    def episode(self, began_ns: int, ended_ns: int, attributes: JsonMapping) -> None:
        """An episode that is over, by the sample rate."""
        if (episode := self.begin_episode(began_ns, attributes)) is not None:
            episode.end(ended_ns, {})

    def begin_episode(self, began_ns: int, attributes: JsonMapping) -> OpenEpisode | None:
        """An episode whose steps will be spans too; None where the sample rate leaves it out."""
        if not self._episodes.takes():
            return None
        if not self.settings.trace_episodes:
            return OpenEpisode(self._tracer, None, self._below_run)
        span = self._tracer.start_span(
            "episode", context=self._below_run, attributes=dict(attributes), start_time=began_ns
        )
        return OpenEpisode(self._tracer, span, trace.set_span_in_context(span))

    def end_run(self, attributes: JsonMapping, error: str | None) -> None:
        """Ends the span of the run."""
        if self._run.is_recording():
            self._run.set_attributes(plain(attributes))
            if error is not None:
                self._run.set_status(Status(StatusCode.ERROR, error))
            self._run.end()

    def shutdown(self) -> None:
        """Sends what is left."""
        self.end_run({}, None)
        self._provider.shutdown()

    def _unseen(self) -> Span:
        """A span that nobody sees, and nobody who is in it."""
        here = self._run.get_span_context()
        return NonRecordingSpan(SpanContext(here.trace_id, here.span_id, False, TraceFlags(TraceFlags.DEFAULT)))


class OpenEpisode:
    """An episode under way whose steps are spans.

    Args:
        tracer: Makes them.
        span: The episode's own; None where only steps are wanted.
        context: Where the steps belong.
    """

    def __init__(self, tracer: trace.Tracer, span: Span | None, context: Context) -> None:
        self._tracer = tracer
        self._span = span
        self._context = context

    def step(self, began_ns: int, ended_ns: int, attributes: JsonMapping) -> None:
        """Adds the span of one finished step."""
        span = self._tracer.start_span("step", context=self._context, attributes=dict(attributes), start_time=began_ns)
        span.end(ended_ns)

    def end(self, ended_ns: int, attributes: JsonMapping) -> None:
        """Ends the span of the episode."""
        if self._span is not None:
            self._span.set_attributes(dict(attributes))
            self._span.end(ended_ns)
