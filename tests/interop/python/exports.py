"""`python exports.py perfetto|otlp FILE` reads an export of `rescind export` by the format's own descriptors, checks what
they don't say, and prints its spans as JSON: name, parent, begin, end, events, status."""

import json
import sys

from google.protobuf.json_format import ParseDict


def perfetto(data):
    from perfetto.protos.perfetto.trace.perfetto_trace_pb2 import Trace, TrackEvent

    trace = Trace()
    trace.ParseFromString(data)
    # Nothing was skipped as a field that is not known: it would be written again in another place.
    assert trace.SerializeToString(deterministic=True) and trace.ByteSize() == len(data)
    tracks, slices = {}, {}
    for packet in trace.packet:
        assert packet.trusted_packet_sequence_id, "without it, events have no tracks"
        if packet.HasField("track_descriptor"):
            track = packet.track_descriptor
            assert track.uuid not in tracks
            tracks[track.uuid] = track
    for track in tracks.values():
        assert not track.parent_uuid or track.parent_uuid in tracks, "a parent that is no track"
    for packet in trace.packet:
        if not packet.HasField("track_event"):
            continue
        event = packet.track_event
        found = slices.setdefault(event.track_uuid, {"events": [], "end": None})
        if event.type == TrackEvent.TYPE_SLICE_BEGIN:
            found |= {
                "name": event.name,
                "parent": tracks[tracks[event.track_uuid].parent_uuid].name,
                "begin": packet.timestamp,
                "about": {it.name: it.string_value or it.int_value for it in event.debug_annotations},
            }
        elif event.type == TrackEvent.TYPE_SLICE_END:
            assert packet.timestamp >= found["begin"]
            found["end"] = packet.timestamp
        else:
            assert event.type == TrackEvent.TYPE_INSTANT
            found["events"].append(event.name)
    return list(slices.values())


def otlp(data):
    from opentelemetry.proto.trace.v1.trace_pb2 import TracesData

    spans = []
    for line in data.splitlines():
        raw = json.loads(line)
        # In protobuf's JSON, bytes are base64; in OTLP's, ids are hexadecimal.
        for resource in raw["resourceSpans"]:
            for scope in resource["scopeSpans"]:
                for span in scope["spans"]:
                    assert len(bytes.fromhex(span["traceId"])) == 16
                    assert len(bytes.fromhex(span["spanId"])) == 8
                    assert len(bytes.fromhex(span.get("parentSpanId", ""))) in (0, 8)
        traces = ParseDict(raw, TracesData(), ignore_unknown_fields=False)
        for resource in traces.resource_spans:
            assert [it.key for it in resource.resource.attributes] == ["service.name"]
            spans += [(span, about) for scope, whole in zip(resource.scope_spans, raw["resourceSpans"][0]["scopeSpans"])
                      for span, about in zip(scope.spans, whole["spans"])]
    names = {about["spanId"]: span.name for span, about in spans}
    assert len(names) == len(spans), "two spans of one id"
    return [
        {
            "name": span.name,
            "trace": about["traceId"],
            "parent": about.get("parentSpanId") and names.get(about["parentSpanId"], about["parentSpanId"]),
            "begin": span.start_time_unix_nano,
            "end": span.end_time_unix_nano,
            "events": [event.name for event in span.events],
            "status": span.status.code,
            "about": {it.key: it.value.string_value or it.value.int_value for it in span.attributes},
        }
        for span, about in spans
    ]


if __name__ == "__main__":
    with open(sys.argv[2], "rb") as file:
        print(json.dumps({"perfetto": perfetto, "otlp": otlp}[sys.argv[1]](file.read())))
