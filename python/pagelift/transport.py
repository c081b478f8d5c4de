"""Hand-offs between two engines: P computes a prompt's caches, D reads them out of P's memory, over NIXL.

It is there in packages that were built with NIXL, and an `ImportError` that says so in others.

    offer = transport.Offer.of(geometry, transport.Exchange(16), facts, memory)    # what blocks mean, and where they lie
    agent = transport.Agent("decode-0")
    agent.register(offer)                                                         # peers may read it
    producer = transport.Producer(agent, offer, "127.0.0.1:7700", secret)         # P: poll, grant, poll until freed
    consumer = transport.Consumer(agent, offer, "127.0.0.1:7700", secret)         # D: begin, poll until ended
    consumer.begin(request, imported, {"main": [0, 7]})

Nothing waits but where it says so, and there is no thread of ours: an engine polls. Both ends may be polled by any thread. Times are
seconds, sizes bytes. `docs/disaggregation.md` says what both ends promise each other.
"""

try:
    from ._pagelift import transport as _transport
except ImportError:
    raise ImportError(
        "this pagelift was built without NIXL; in a checkout, `cargo xtask nixl` says what to set, and "
        "`MATURIN_PEP517_ARGS='--features nixl' pip install ./python` builds it with NIXL"
    ) from None

Agent = _transport.Agent
Ask = _transport.Ask
Consumer = _transport.Consumer
ControlError = _transport.ControlError
Exchange = _transport.Exchange
GroupFacts = _transport.GroupFacts
Library = _transport.Library
NixlError = _transport.NixlError
Offer = _transport.Offer
Producer = _transport.Producer
SchemaError = _transport.SchemaError
TransportError = _transport.TransportError
WantedBy = _transport.WantedBy
posted = _transport.posted

__all__ = [name for name in dir() if not name.startswith("_")]
